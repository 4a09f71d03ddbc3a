import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.FileObject;
import javax.tools.ForwardingJavaFileManager;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.StandardLocation;
import javax.tools.ToolProvider;

/**
 * The shim of runtime java: compiles a function's file and serves it over descriptor 3 (runtimes/PROTOCOL.md).
 *
 * {@code java Shim.java ENTRY} compiles this file alone. It compiles the rest of the shim, which is in {@code lib}, together
 * with the function's file, so that both know the same classes; then {@code fnd.worker.Worker} takes over.
 */
public final class Shim {
    private static final List<String> PACKAGES = List.of("fnd", "fnd/worker", "io/kubeless");

    public static void main(String[] arguments) throws Throwable {
        Path entry = Path.of(arguments[0]).toAbsolutePath();
        Path lib = Path.of(Shim.class.getProtectionDomain().getCodeSource().getLocation().toURI()).resolveSibling("lib");
        List<Path> library = new ArrayList<>();
        for (String directory : PACKAGES) {
            library.addAll(files(lib.resolve(directory), ".java"));
        }
        List<Path> jars = files(entry.resolveSibling("lib"), ".jar");
        Compilation compilation = new Compilation(library, jars);
        if (!compilation.run(entry)) {
            // Without the function, so that the worker can say why.
            Compilation alone = new Compilation(library, jars);
            alone.run(null);
            call(alone, "cannot", List.of(compilation.message(), compilation.errors()));
        } else {
            call(compilation, "serve", compilation.entryClasses);
        }
    }

    private static List<Path> files(Path directory, String suffix) throws IOException {
        List<Path> result = new ArrayList<>();
        if (Files.isDirectory(directory)) {
            try (DirectoryStream<Path> files = Files.newDirectoryStream(directory)) {
                for (Path file : files) {
                    if (file.toString().endsWith(suffix)) {
                        result.add(file);
                    }
                }
            }
        }
        Collections.sort(result);
        return result;
    }

    private static void call(Compilation compilation, String method, List<String> texts) throws Throwable {
        ClassLoader loader = new Loader(compilation);
        Thread.currentThread().setContextClassLoader(loader);
        try {
            loader.loadClass("fnd.worker.Worker").getMethod(method, List.class).invoke(null, texts);
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }

    /** One run of the compiler, from files to memory. */
    private static final class Compilation {
        final Map<String, ByteArrayOutputStream> classes = new HashMap<>();
        /** Names of the classes in the function's file. */
        final List<String> entryClasses = new ArrayList<>();
        final List<Path> jars;
        private final List<Path> library;
        private final DiagnosticCollector<JavaFileObject> found = new DiagnosticCollector<>();

        Compilation(List<Path> library, List<Path> jars) {
            this.library = library;
            this.jars = jars;
        }

        /** Compiles the library, and a function's file unless it is null; says whether there was no error. */
        boolean run(Path entry) throws IOException {
            JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
            StandardJavaFileManager disk = compiler.getStandardFileManager(found, Locale.ENGLISH, StandardCharsets.UTF_8);
            List<Path> path = new ArrayList<>(jars);
            for (String item : System.getProperty("java.class.path", "").split(":")) {
                path.add(Path.of(item));
            }
            disk.setLocationFromPaths(StandardLocation.CLASS_PATH, path);
            List<JavaFileObject> sources = new ArrayList<>();
            for (JavaFileObject file : disk.getJavaFileObjectsFromPaths(library)) {
                sources.add(file);
            }
            Source source = entry == null ? null : new Source(entry);
            if (source != null) {
                sources.add(source);
                disk.setLocationFromPaths(StandardLocation.SOURCE_PATH, List.of(entry.getParent()));
            }
            // Without jars there is no annotation processor.
            List<String> options = new ArrayList<>(List.of("-g", "-Xlint:none", "-implicit:class", "-Xprefer:source"));
            options.addAll(jars.isEmpty() ? List.of("-proc:none") : List.of());
            Memory memory = new Memory(disk, this, source);
            return compiler.getTask(null, memory, found, options, null, sources).call();
        }

        /** Returns the first error: {@code FILE:LINE:COLUMN: TEXT}. */
        String message() {
            for (Diagnostic<? extends JavaFileObject> error : found.getDiagnostics()) {
                if (error.getKind() == Diagnostic.Kind.ERROR) {
                    String text = error.getMessage(Locale.ENGLISH).strip().replaceAll("\\s*\\n\\s*", "; ").replaceAll(" +", " ");
                    if (error.getSource() == null) {
                        return text;
                    }
                    Path file = Path.of(error.getSource().getName()).getFileName();
                    return String.format("%s:%d:%d: %s", file, error.getLineNumber(), error.getColumnNumber(), text);
                }
            }
            return "the compiler failed";
        }

        /** Returns all errors as the compiler shows them. */
        String errors() {
            StringBuilder result = new StringBuilder();
            for (Diagnostic<? extends JavaFileObject> error : found.getDiagnostics()) {
                if (error.getKind() == Diagnostic.Kind.ERROR) {
                    result.append(error).append('\n');
                }
            }
            return result.toString();
        }
    }

    /** The function's file: its classes may have any name. */
    private static final class Source extends SimpleJavaFileObject {
        private final Path file;

        Source(Path file) {
            super(file.toUri(), Kind.SOURCE);
            this.file = file;
        }

        @Override
        public String getName() {
            return file.getFileName().toString();
        }

        @Override
        public boolean isNameCompatible(String name, Kind kind) {
            return kind == Kind.SOURCE;
        }

        @Override
        public CharSequence getCharContent(boolean ignoreEncodingErrors) throws IOException {
            String text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
            text = text.startsWith("\ufeff") ? text.substring(1) : text;
            // The compiler takes no `#!` line. The text keeps its lines.
            return text.startsWith("#!") ? "//" + text.substring(2) : text;
        }
    }

    /** Keeps classes in memory, and finds the files beside the function's that belong to the same package. */
    private static final class Memory extends ForwardingJavaFileManager<StandardJavaFileManager> {
        private static final Pattern PACKAGE = Pattern.compile("(?m)^\\s*package\\s+([\\w.]+)\\s*;");
        private final Compilation compilation;
        private final Source entry;
        /** Files beside the function's by the package that they name. */
        private Map<String, List<JavaFileObject>> beside;
        /** The package that each of them names. */
        private final Map<JavaFileObject, String> packages = new HashMap<>();

        Memory(StandardJavaFileManager disk, Compilation compilation, Source entry) {
            super(disk);
            this.compilation = compilation;
            this.entry = entry;
        }

        @Override
        public JavaFileObject getJavaFileForOutput(Location location, String name, JavaFileObject.Kind kind, FileObject from) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            compilation.classes.put(name, bytes);
            if (from == entry) {
                compilation.entryClasses.add(name);
            }
            return new SimpleJavaFileObject(URI.create("memory:///" + name.replace('.', '/') + ".class"), kind) {
                @Override
                public OutputStream openOutputStream() {
                    return bytes;
                }
            };
        }

        @Override
        public Iterable<JavaFileObject> list(Location location, String name, Set<JavaFileObject.Kind> kinds, boolean recurse)
            throws IOException {
            Iterable<JavaFileObject> found = super.list(location, name, kinds, recurse);
            if (location != StandardLocation.SOURCE_PATH || name.isEmpty() || entry == null) {
                return found;
            }
            List<JavaFileObject> all = new ArrayList<>(beside().getOrDefault(name, List.of()));
            for (JavaFileObject file : found) {
                all.add(file);
            }
            return all;
        }

        private Map<String, List<JavaFileObject>> beside() throws IOException {
            if (beside == null) {
                beside = new HashMap<>();
                for (Path file : files(entry.file.getParent(), ".java")) {
                    Matcher found = PACKAGE.matcher(new String(Files.readAllBytes(file), StandardCharsets.UTF_8));
                    if (!file.equals(entry.file) && found.find()) {
                        beside.putIfAbsent(found.group(1), new ArrayList<>());
                        for (JavaFileObject object : fileManager.getJavaFileObjects(file)) {
                            beside.get(found.group(1)).add(object);
                            packages.put(object, found.group(1));
                        }
                    }
                }
            }
            return beside;
        }

        @Override
        public String inferBinaryName(Location location, JavaFileObject file) {
            String name = packages.get(file);
            if (name == null) {
                return super.inferBinaryName(location, file);
            }
            String stem = Path.of(file.getName()).getFileName().toString().replace(".java", "");
            return name + "." + stem;
        }
    }

    /** Loads the compiled classes before those that the class path may have under the same names. */
    private static final class Loader extends URLClassLoader {
        private final Map<String, ByteArrayOutputStream> classes;

        Loader(Compilation compilation) throws IOException {
            super(urls(compilation.jars), ClassLoader.getSystemClassLoader());
            this.classes = compilation.classes;
        }

        private static URL[] urls(List<Path> jars) throws IOException {
            URL[] urls = new URL[jars.size()];
            for (int i = 0; i < urls.length; i++) {
                urls[i] = jars.get(i).toUri().toURL();
            }
            return urls;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            synchronized (getClassLoadingLock(name)) {
                if (!classes.containsKey(name)) {
                    return super.loadClass(name, resolve);
                }
                Class<?> loaded = findLoadedClass(name);
                if (loaded == null) {
                    byte[] bytes = classes.get(name).toByteArray();
                    loaded = defineClass(name, bytes, 0, bytes.length);
                }
                return loaded;
            }
        }
    }
}
