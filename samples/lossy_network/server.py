"""The server: answers questions, and records the order in which they were delivered.

It does not know of the faulty network. ``mercury serve samples.lossy_network.server:app`` runs it.
"""

from mercury import Mercury, MessageContext, Service
from samples.lossy_network.messages import Answer, Question

service = Service("questions")
delivered: list[int] = []


@service.operation
def ask(question: Question, context: MessageContext) -> Answer:
    # The transaction may be rolled back and the handler run again: count the question only after the commit.
    context.transaction.after_commit(lambda: delivered.append(question.number))
    return Answer(question.number, question.number**2)


app = Mercury().app(service)


@app.get("/delivered")  # it is a FastAPI application like any other
def delivered_so_far(after: int = 0) -> list[int]:
    return delivered[after:]
