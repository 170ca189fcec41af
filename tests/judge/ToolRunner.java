import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the `main` of one command-line tool after the other in this JVM; one line of JSON asks, one answers.
 *
 * <p>First it prints `{}`: it is ready. Asked: `{"class": NAME, "args": [...], "limit_s": N}`. Answered: `{"code": N,
 * "out": TEXT, "err": TEXT}`; the code is null where the tool has not ended in time. Such a tool is interrupted, and
 * what it does afterwards does not count. A tool that calls `Exit.exit` is ended by an error, and what it prints while
 * that error passes through it does not count either.
 */
public class ToolRunner {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Capture OUT = new Capture();
    static final Capture ERR = new Capture();
    static volatile Integer exitCode;
    static volatile Thread current;

    /** Passes through the tool instead of the end of the JVM. */
    static class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    /** Holds what the current tool has printed before its end. */
    static class Capture extends OutputStream {
        private ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int one) {
            if (exitCode == null && Thread.currentThread() == current) {
                bytes.write(one);
            }
        }

        synchronized String take() {
            String text = bytes.toString(StandardCharsets.UTF_8);
            bytes = new ByteArrayOutputStream();
            return text;
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.Procedure end = (status, message) -> {
            if (exitCode == null && Thread.currentThread() == current) {
                exitCode = status;
            }
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answers.println("{}");
        answers.flush();
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            answers.flush();
        }
    }

    static Map<String, Object> answer(JsonNode question) throws InterruptedException {
        List<String> arguments = new ArrayList<>();
        question.get("args").forEach(each -> arguments.add(each.asText()));
        exitCode = null;
        AtomicReference<Integer> code = new AtomicReference<>();
        current = new Thread(() -> code.set(run(question.get("class").asText(), arguments.toArray(new String[0]))));
        current.setDaemon(true);
        current.start();
        current.join(question.get("limit_s").asLong() * 1000);
        Thread late = current;
        Map<String, Object> answer = new HashMap<>();
        answer.put("code", code.get());
        answer.put("out", OUT.take());
        answer.put("err", ERR.take());
        current = null;
        late.interrupt();
        return answer;
    }

    /** Returns the code with which the tool's own JVM would end. */
    static int run(String name, String[] arguments) {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException fault) {
            if (exitCode == null) {
                System.err.println("Exception in thread \"main\" " + fault.getCause());
                return 1;
            }
        } catch (ReflectiveOperationException fault) {
            System.err.println(fault);
            return 127;
        }
        return exitCode == null ? 0 : exitCode;
    }
}
