package fnd;

/** Says that the caller sent something invalid: the call is answered with status 400 and this text. */
public class BadRequest extends RuntimeException {
    public BadRequest(String message) {
        super(message);
    }
}
