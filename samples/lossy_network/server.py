"""The server: answers questions, and remembers in what order they reached it.

Nothing here knows of the bad network. ``mercury serve samples.lossy_network.server:app`` runs it.
"""

from mercury import Mercury, MessageContext, Service
from samples.lossy_network.messages import Answer, Question

service = Service("questions")
delivered: list[int] = []


@service.operation
def ask(question: Question, context: MessageContext) -> Answer:
    # What a handler does counts once its transaction is committed; so does our list.
    context.transaction.after_commit(lambda: delivered.append(question.number))
    return Answer(question.number, question.number**2)


app = Mercury().app(service)


@app.get("/delivered")  # it is a FastAPI application like any other
def delivered_so_far(after: int = 0) -> list[int]:
    return delivered[after:]
