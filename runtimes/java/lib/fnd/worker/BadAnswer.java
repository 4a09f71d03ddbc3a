package fnd.worker;

/** Thrown if the value that the handler returned cannot be sent. */
final class BadAnswer extends RuntimeException {
    BadAnswer(String message) {
        super(message);
    }
}
