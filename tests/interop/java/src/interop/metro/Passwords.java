package interop.metro;

import com.sun.xml.wss.impl.callback.PasswordValidationCallback;

/** Whom a server knows: the policy in its WSDL names this class. The password is in a property of the process. */
public final class Passwords extends PasswordValidationCallback.WsitDigestPasswordValidator {
    private static final String USER = "till";

    private static String password() {
        return System.getProperty("peer.password");
    }

    @Override
    public void setPassword(PasswordValidationCallback.Request request) {
        PasswordValidationCallback.DigestPasswordRequest digest =
            (PasswordValidationCallback.DigestPasswordRequest) request;
        if (USER.equals(digest.getUsername())) {
            digest.setPassword(password());
        }
    }

    @Override
    public boolean validate(PasswordValidationCallback.Request request)
        throws PasswordValidationCallback.PasswordValidationException {
        if (request instanceof PasswordValidationCallback.PlainTextPasswordRequest text) {
            return USER.equals(text.getUsername()) && password().equals(text.getPassword());
        }
        return super.validate(request);
    }
}
