import fnd.Request;
import fnd.Upload;
import io.kubeless.Context;
import io.kubeless.Event;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

public class Uploads {
    public Object handler(Event event, Context context) throws Exception {
        Request request = event.request;
        if ("route".equals(request.header("X-Ask"))) {
            return Arrays.asList(request.route(), request.params(), request.remoteAddr());
        } else if ("left".equals(request.header("X-Ask"))) {
            return new File(System.getenv("TMPDIR")).list((directory, name) -> name.startsWith("upload-"));
        }
        Map<String, Object> files = new LinkedHashMap<>();
        for (String name : request.files().keySet()) {
            Upload file = request.file(name);
            byte[] read = Files.readAllBytes(file.path());
            if (!Arrays.equals(read, file.read()) || read.length != file.size()) {
                throw new IllegalStateException("the file differs");
            }
            String start = new String(read, 0, Math.min(read.length, 16), StandardCharsets.ISO_8859_1);
            files.put(name, List.of(file.filename(), file.contentType(), file.size(), start));
        }
        return Map.of("forms", request.forms(), "files", files);
    }
}
