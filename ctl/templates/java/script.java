// A script: each run is a process of its own, which first compiles this file.
//
// Standard input is the payload, and so is the variable DATA. Standard output is the result; standard error is the log.
// Exit codes: 0 success, 75 try again later, 65 never try again, others an error.
import java.util.regex.Pattern;

public class Script {
    public static void main(String[] arguments) throws Exception {
        String payload = new String(System.in.readAllBytes());
        System.err.println("run " + System.getenv("FND_INVOCATION") + " attempt " + System.getenv("FND_ATTEMPT"));
        long words = Pattern.compile("\\p{L}+").matcher(payload).results().count();
        System.out.println("{\"words\": " + words + "}");
    }
}
