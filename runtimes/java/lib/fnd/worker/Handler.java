package fnd.worker;

import io.kubeless.Context;
import io.kubeless.Event;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;

/** The method that is called, and the object it belongs to. */
final class Handler {
    private final Method method;
    /** Null for a static method. */
    private final Object object;

    private Handler(Method method, Object object) {
        this.method = method;
        this.object = object;
    }

    String name() {
        return method.getName();
    }

    Object call(Event event, Context context) throws Throwable {
        try {
            return method.invoke(object, event, context);
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }

    /** Finds the handler in the classes of the function's file. */
    static Handler find(List<Class<?>> classes) throws Throwable {
        List<Method> known = methods(classes);
        String wanted = System.getenv().getOrDefault("FUNC_HANDLER", "");
        if (wanted.isEmpty()) {
            List<Method> named = only(known, method -> method.getName().equals("handler"));
            known = named.isEmpty() ? known : named;
        } else {
            known = only(known, method -> method.getName().equals(wanted));
            if (known.isEmpty()) {
                String message = "the file has no method `%s(Event, Context)`, which `handler` of the manifest names";
                throw new IllegalStateException(message.formatted(wanted));
            }
        }
        if (known.size() > 1) {
            // Kubeless names the class by the file: `Foo.foo`.
            String module = System.getenv().getOrDefault("MOD_NAME", "");
            List<Method> own = only(known, method -> method.getDeclaringClass().getSimpleName().equals(module));
            known = own.isEmpty() ? known : own;
        }
        if (known.isEmpty()) {
            throw new IllegalStateException("the file has no method `handler(io.kubeless.Event, io.kubeless.Context)`");
        }
        if (known.size() > 1) {
            List<String> names = known.stream().map(method -> "`" + method.getName() + "`").sorted().toList();
            String message = "the file has several methods with the parameters (Event, Context): %s; name one of them `handler`";
            throw new IllegalStateException(message.formatted(String.join(", ", names)));
        }
        Method method = known.get(0);
        method.setAccessible(true);
        return new Handler(method, Modifier.isStatic(method.getModifiers()) ? null : object(method.getDeclaringClass()));
    }

    private static List<Method> methods(List<Class<?>> classes) {
        List<Method> result = new ArrayList<>();
        for (Class<?> each : classes) {
            for (Method method : each.getDeclaredMethods()) {
                Class<?>[] parameters = method.getParameterTypes();
                boolean fits = parameters.length == 2 && parameters[0] == Event.class && parameters[1] == Context.class;
                // The compiler makes methods of its own for lambdas and for overridden methods.
                boolean callable = !method.isSynthetic() && !Modifier.isAbstract(method.getModifiers());
                if (fits && callable) {
                    result.add(method);
                }
            }
        }
        List<Method> open = only(result, method -> Modifier.isPublic(method.getModifiers()));
        return open.isEmpty() ? result : open;
    }

    private static List<Method> only(List<Method> methods, Predicate<Method> condition) {
        return methods.stream().filter(condition).toList();
    }

    private static Object object(Class<?> owner) throws Throwable {
        try {
            Constructor<?> constructor = owner.getDeclaredConstructor();
            constructor.setAccessible(true);
            return constructor.newInstance();
        } catch (NoSuchMethodException | InstantiationException none) {
            String message = "class `%s` needs a constructor without parameters, or its handler must be static";
            throw new IllegalStateException(message.formatted(owner.getName()));
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }
}
