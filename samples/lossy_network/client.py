"""The client: sends questions and takes the answers. What it knows it tells on stdout, line by line, as JSON.

Nothing here knows of the bad network; a client without an audience is much shorter (samples/request_response).
"""

import argparse
import json
import logging

from mercury import Mercury, MessageContext
from samples.lossy_network.messages import Answer, Question

#: Seconds between two lines.
LOOK = 0.1

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("url", help="the URL of the service")
parser.add_argument("--messages", type=int, default=1000, help="how many questions to send; default: %(default)s")
parser.add_argument("--address", help="where the server reaches this client; left out, it does not listen")


def main() -> None:
    options = parser.parse_args()
    mercury = Mercury(address=options.address)
    logging.basicConfig(level=mercury.settings.log.level)
    answers: list[int] = []

    @mercury.callback("answers")
    def take(answer: Answer, context: MessageContext) -> None:
        # What a callback does counts once its transaction is committed; so does our list.
        context.transaction.after_commit(lambda: answers.append(answer.number))

    if options.address:
        tell(listening=mercury.listen())
    with mercury:
        questions = mercury.to(options.url)
        for number in range(1, options.messages + 1):
            questions.request_with_callback(Question(number), "answers")
        questions.close()  # no more after these; it ends when all are answered
        tell(sent=options.messages)

        told, done = 0, False
        while not done:
            # Until the sequence has ended and every answer was taken: one that is stored may wait for those before it.
            done = questions.wait(timeout=LOOK).settled
            acknowledged = sum(high - low + 1 for each in questions.status() for low, high in each.ranges)
            # WS-RM 1.0 ends a sequence with an empty message, which has a number and is acknowledged like the others.
            new = answers[told:]
            tell(acknowledged=min(acknowledged, options.messages), answers=new)
            told += len(new)
    tell(answers=answers[told:])  # what was committed as the last is in the list once Mercury has stopped


def tell(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
