package interop;

import jakarta.jws.Oneway;
import jakarta.jws.WebMethod;
import jakarta.jws.WebParam;
import jakarta.jws.WebResult;
import jakarta.jws.WebService;
import jakarta.jws.soap.SOAPBinding;
import jakarta.xml.ws.Action;

/** The service of every cell. */
@WebService(name = "Orders", targetNamespace = Orders.NAMESPACE)
@SOAPBinding(parameterStyle = SOAPBinding.ParameterStyle.BARE)
public interface Orders {
    String NAMESPACE = "urn:mercury:interop";

    @Oneway
    @WebMethod(operationName = "Note", action = NAMESPACE + "/Note")
    @Action(input = NAMESPACE + "/Note")
    void note(@WebParam(name = "Note", targetNamespace = NAMESPACE) Note note);

    @WebMethod(operationName = "Ask", action = NAMESPACE + "/Ask")
    @WebResult(name = "Answer", targetNamespace = NAMESPACE)
    @Action(input = NAMESPACE + "/Ask", output = NAMESPACE + "/AskResponse")
    Answer ask(@WebParam(name = "Ask", targetNamespace = NAMESPACE) Ask ask);
}
