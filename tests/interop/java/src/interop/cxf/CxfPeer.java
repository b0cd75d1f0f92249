package interop.cxf;

import interop.Calls;
import interop.Commands;
import interop.Journal;
import interop.Orders;
import interop.OrdersHere;
import jakarta.jws.WebService;
import jakarta.xml.ws.soap.SOAPBinding;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.xml.namespace.QName;
import org.apache.cxf.Bus;
import org.apache.cxf.BusFactory;
import org.apache.cxf.endpoint.Client;
import org.apache.cxf.endpoint.Server;
import org.apache.cxf.feature.Feature;
import org.apache.cxf.frontend.ClientProxy;
import org.apache.cxf.jaxws.JaxWsProxyFactoryBean;
import org.apache.cxf.jaxws.JaxWsServerFactoryBean;
import org.apache.cxf.transport.http.HTTPConduit;
import org.apache.cxf.transports.http.configuration.HTTPClientPolicy;
import org.apache.cxf.ws.addressing.WSAddressingFeature;
import org.apache.cxf.ws.policy.WSPolicyFeature;
import org.apache.cxf.ws.rm.RMManager;
import org.apache.cxf.ws.rm.feature.RMFeature;
import org.apache.cxf.ws.rm.manager.DeliveryAssuranceType;
import org.apache.cxf.ws.rm.manager.DestinationPolicyType;
import org.apache.cxf.ws.rm.manager.RM10AddressingNamespaceType;
import org.apache.cxf.ws.rm.manager.SourcePolicyType;

/**
 * Apache CXF as a client and a server. Without words everything is as CXF has it by default. {@code serve} and
 * {@code send} each have a bus of their own, so that no setting of one cell is seen by another.
 */
public final class CxfPeer {
    private final Journal journal;

    private CxfPeer(Path file) {
        journal = new Journal(file);
    }

    public static void main(String[] arguments) throws Exception {
        CxfPeer peer = new CxfPeer(Path.of(arguments[0]));
        new Commands().on("serve", peer::serve).on("send", peer::send)
            .on("received", words -> Map.of("numbers", peer.journal.of(words.get("cell")))).run();
    }

    /** The annotations by which CXF finds the interface. */
    @WebService(endpointInterface = "interop.Orders", targetNamespace = Orders.NAMESPACE, serviceName = "OrdersService")
    public static final class AnnotatedOrders extends OrdersHere {
        AnnotatedOrders(Journal journal) {
            super(journal);
        }
    }

    private Map<String, Object> serve(Map<String, String> words) {
        Bus bus = BusFactory.newInstance().createBus();
        BusFactory.setThreadDefaultBus(bus);
        String url = "http://127.0.0.1:" + words.get("port") + "/" + words.getOrDefault("path", "orders");
        JaxWsServerFactoryBean factory = new JaxWsServerFactoryBean();
        factory.setBus(bus);
        factory.setServiceClass(AnnotatedOrders.class);
        factory.setServiceBean(new AnnotatedOrders(journal));
        factory.setAddress(url);
        if (words.containsKey("wsdl")) {
            factory.setWsdlLocation(words.get("wsdl"));
            factory.setServiceName(new QName(Orders.NAMESPACE, "OrdersService"));
            factory.setEndpointName(new QName(Orders.NAMESPACE, "OrdersPort"));
        } else {
            factory.setBindingId(binding(words));
        }
        factory.getFeatures().addAll(features(words));
        factory.setProperties(properties(words));
        Server server = factory.create();
        if (!server.isStarted()) {
            server.start();
        }
        return Map.of("url", url);
    }

    private Map<String, Object> send(Map<String, String> words) throws InterruptedException {
        Bus bus = BusFactory.newInstance().createBus();
        BusFactory.setThreadDefaultBus(bus);
        try {
            JaxWsProxyFactoryBean factory = new JaxWsProxyFactoryBean();
            factory.setBus(bus);
            factory.setServiceClass(Orders.class);
            factory.setAddress(words.get("url"));
            if (words.containsKey("wsdl")) {
                factory.setWsdlURL(words.get("wsdl"));
                factory.setServiceName(new QName(Orders.NAMESPACE, words.getOrDefault("service", "OrdersService")));
                factory.setEndpointName(new QName(Orders.NAMESPACE, words.getOrDefault("port", "OrdersPort")));
            } else {
                factory.setBindingId(binding(words));
            }
            factory.getFeatures().addAll(features(words));
            factory.setProperties(properties(words));
            Orders orders = (Orders) factory.create();
            Client client = ClientProxy.getClient(orders);
            HTTPConduit conduit = (HTTPConduit) client.getConduit();
            HTTPClientPolicy policy = conduit.getClient() == null ? new HTTPClientPolicy() : conduit.getClient();
            if (words.containsKey("decoupled")) {
                policy.setDecoupledEndpoint(words.get("decoupled"));
            }
            conduit.setClient(policy);
            Map<String, Object> result = new LinkedHashMap<>(Calls.make(orders, words));
            result.put("unacknowledged", unacknowledged(bus, Long.parseLong(words.getOrDefault("patience", "60"))));
            client.destroy();
            return result;
        } finally {
            bus.shutdown(true);
            BusFactory.clearDefaultBusForAnyThread(bus);
        }
    }

    private static int unacknowledged(Bus bus, long seconds) throws InterruptedException {
        RMManager manager = bus.getExtension(RMManager.class);
        long until = System.nanoTime() + seconds * 1_000_000_000L;
        int count = manager.getRetransmissionQueue().countUnacknowledged();
        while (count > 0 && System.nanoTime() < until) {
            Thread.sleep(50);
            count = manager.getRetransmissionQueue().countUnacknowledged();
        }
        return count;
    }

    /** MTOM, and the settings of WS-Security, which have the names of CXF. */
    private static Map<String, Object> properties(Map<String, String> words) {
        Map<String, Object> found = new LinkedHashMap<>(Map.of("mtom-enabled", words.containsKey("mtom")));
        words.forEach((name, value) -> {
            if (name.startsWith("security.") || name.startsWith("ws-security.")) {
                found.put(name, value);
            }
        });
        return found;
    }

    private static String binding(Map<String, String> words) {
        return words.getOrDefault("soap", "1.1").equals("1.2")
            ? SOAPBinding.SOAP12HTTP_BINDING : SOAPBinding.SOAP11HTTP_BINDING;
    }

    private static List<Feature> features(Map<String, String> words) {
        if (words.containsKey("wsdl")) {
            return new ArrayList<>(List.of(new WSPolicyFeature()));
        }
        RMFeature rm = new RMFeature();
        if (words.getOrDefault("rm", "").equals("1.1")) {
            rm.setRMNamespace("http://docs.oasis-open.org/ws-rx/wsrm/200702");
        }
        if (words.getOrDefault("wsa", "").equals("1.0")) {
            RM10AddressingNamespaceType addressing = new RM10AddressingNamespaceType();
            addressing.setUri("http://www.w3.org/2005/08/addressing");
            rm.setRM10AddressingNamespace(addressing);
        }
        if (words.getOrDefault("assurance", "").equals("in-order")) {
            DeliveryAssuranceType assurance = new DeliveryAssuranceType();
            assurance.setExactlyOnce(new DeliveryAssuranceType.ExactlyOnce());
            assurance.setInOrder(new DeliveryAssuranceType.InOrder());
            rm.setDeliveryAssurance(assurance);
        }
        if (words.getOrDefault("offer", "").equals("none")) {
            SourcePolicyType source = new SourcePolicyType();
            source.setIncludeOffer(false);
            rm.setSourcePolicy(source);
        }
        if (words.getOrDefault("offer", "").equals("declined")) {
            DestinationPolicyType destination = new DestinationPolicyType();
            destination.setAcceptOffers(false);
            rm.setDestinationPolicy(destination);
        }
        return new ArrayList<>(List.of(rm, new WSAddressingFeature()));
    }
}
