package interop.cxf;

import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import org.apache.wss4j.common.ext.WSPasswordCallback;

/** Whom a server knows: its setting names this class. The password is in a property of the process. */
public final class Passwords implements CallbackHandler {
    private static final String USER = "till";

    @Override
    public void handle(Callback[] callbacks) {
        for (Callback each : callbacks) {
            if (each instanceof WSPasswordCallback asked && USER.equals(asked.getIdentifier())) {
                asked.setPassword(System.getProperty("peer.password"));
            }
        }
    }
}
