package interop.metro;

import com.sun.xml.ws.rx.rm.api.ReliableMessagingFeatureBuilder;
import com.sun.xml.ws.rx.rm.api.RmProtocolVersion;
import interop.Calls;
import interop.Commands;
import interop.Journal;
import interop.Orders;
import interop.OrdersHere;
import jakarta.jws.WebService;
import jakarta.xml.ws.BindingProvider;
import jakarta.xml.ws.BindingType;
import jakarta.xml.ws.Endpoint;
import jakarta.xml.ws.Service;
import jakarta.xml.ws.WebServiceFeature;
import jakarta.xml.ws.soap.SOAPBinding;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import javax.xml.namespace.QName;
import javax.xml.transform.stream.StreamSource;

/**
 * Eclipse Metro as a client and a server. What makes it reliable is the policy in the WSDL that it is given; only a
 * client that offers no sequence is configured in code.
 */
public final class MetroPeer {
    private static final QName SERVICE = new QName(Orders.NAMESPACE, "OrdersService");
    private static final QName PORT = new QName(Orders.NAMESPACE, "OrdersPort");

    private final Journal journal;

    private MetroPeer(Path file) {
        journal = new Journal(file);
    }

    public static void main(String[] arguments) throws Exception {
        MetroPeer peer = new MetroPeer(Path.of(arguments[0]));
        new Commands().on("serve", peer::serve).on("send", peer::send)
            .on("received", words -> Map.of("numbers", peer.journal.of(words.get("cell")))).run();
    }

    /** The service over SOAP 1.1. */
    @WebService(endpointInterface = "interop.Orders", targetNamespace = Orders.NAMESPACE,
        serviceName = "OrdersService", portName = "OrdersPort")
    @BindingType(SOAPBinding.SOAP11HTTP_BINDING)
    public static final class Orders11 extends OrdersHere {
        Orders11(Journal journal) {
            super(journal);
        }
    }

    /** The service over SOAP 1.2. */
    @WebService(endpointInterface = "interop.Orders", targetNamespace = Orders.NAMESPACE,
        serviceName = "OrdersService", portName = "OrdersPort")
    @BindingType(SOAPBinding.SOAP12HTTP_BINDING)
    public static final class Orders12 extends OrdersHere {
        Orders12(Journal journal) {
            super(journal);
        }
    }

    private Map<String, Object> serve(Map<String, String> words) {
        Endpoint endpoint =
            Endpoint.create(words.get("soap").equals("1.2") ? new Orders12(journal) : new Orders11(journal));
        StreamSource wsdl = new StreamSource(Path.of(words.get("wsdl")).toFile());
        endpoint.setMetadata(List.of(wsdl));
        endpoint.setProperties(Map.of(Endpoint.WSDL_SERVICE, SERVICE, Endpoint.WSDL_PORT, PORT));
        String url = "http://127.0.0.1:" + words.get("port") + "/orders";
        endpoint.publish(url);
        return Map.of("url", url);
    }

    /** The policy decides alone, but it has no assertion for a client that offers no sequence for responses. */
    private static WebServiceFeature[] features(Map<String, String> words) {
        if (!words.getOrDefault("offer", "").equals("none")) {
            return new WebServiceFeature[0];
        }
        RmProtocolVersion version =
            words.get("rm").equals("1.0") ? RmProtocolVersion.WSRM200502 : RmProtocolVersion.WSRM200702;
        return new WebServiceFeature[] {new ReliableMessagingFeatureBuilder(version)
            .enableOrderedDelivery().disableOfferElementGeneration().build()};
    }

    private Map<String, Object> send(Map<String, String> words) throws Exception {
        QName name = words.containsKey("service") ? new QName(Orders.NAMESPACE, words.get("service")) : SERVICE;
        QName port = words.containsKey("port") ? new QName(Orders.NAMESPACE, words.get("port")) : PORT;
        Service service = Service.create(Path.of(words.get("wsdl")).toUri().toURL(), name);
        Orders orders = service.getPort(port, Orders.class, features(words));
        ((BindingProvider) orders).getRequestContext()
            .put(BindingProvider.ENDPOINT_ADDRESS_PROPERTY, words.get("url"));
        Map<String, Object> result = Calls.make(orders, words);
        ((java.io.Closeable) orders).close();
        return result;
    }
}
