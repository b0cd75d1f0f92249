"""The client: sends questions, receives the answers, and reports its progress on stdout as lines of JSON.

It does not know of the faulty network. A client without progress reports is much shorter (samples/request_response).
"""

import argparse
import json
import logging

from mercury import Mercury, MessageContext
from samples.lossy_network.messages import Answer, Question

#: Seconds between two lines.
REPORT_INTERVAL = 0.1

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("url", help="the URL of the service")
parser.add_argument("--messages", type=int, default=1000, help="number of questions to send; default: %(default)s")
parser.add_argument("--address", help="URL for responses to this client; by default it does not listen")


def main() -> None:
    options = parser.parse_args()
    mercury = Mercury(address=options.address)
    logging.basicConfig(level=mercury.settings.log.level)
    answers: list[int] = []

    @mercury.callback("answers")
    def take(answer: Answer, context: MessageContext) -> None:
        # The transaction may be rolled back and the callback run again: count the answer only after the commit.
        context.transaction.after_commit(lambda: answers.append(answer.number))

    if options.address:
        report(listening=mercury.listen())
    with mercury:
        questions = mercury.to(options.url)
        for number in range(1, options.messages + 1):
            questions.request_with_callback(Question(number), "answers")
        questions.close()  # ends the sequence when all questions are answered
        report(sent=options.messages)

        reported, done = 0, False
        while not done:
            # Until the sequence has ended and every answer was delivered: a stored one may wait for earlier ones.
            done = questions.wait(timeout=REPORT_INTERVAL).settled
            acknowledged = sum(high - low + 1 for each in questions.status() for low, high in each.ranges)
            # WS-RM 1.0 ends a sequence with an empty message, which has a number and is acknowledged like the others.
            new = answers[reported:]
            report(acknowledged=min(acknowledged, options.messages), answers=new)
            reported += len(new)
    report(answers=answers[reported:])  # Mercury has stopped, so the list has every committed answer


def report(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
