import io.kubeless.Context;
import io.kubeless.Event;
import java.util.concurrent.CountDownLatch;

public class Gate {
    private final CountDownLatch gate = new CountDownLatch(1);

    public String handler(Event event, Context context) throws InterruptedException {
        if (event.Data.equals("open")) {
            gate.countDown();
        } else {
            gate.await();
        }
        return event.Data;
    }
}
