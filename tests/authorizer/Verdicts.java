import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import javax.security.auth.x500.X500Principal;
import kafka.security.authorizer.AclAuthorizer;
import kafka.zk.ResourceZNode;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.zookeeper.data.Stat;

/** Answers questions, one line of JSON each, by Kafka's own classes. See `kafka.py` for the lines. */
public class Verdicts {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, AclAuthorizer> AUTHORIZERS = new HashMap<>();
    static final Method UPDATE_CACHE = method("updateCache");

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("answer", answer(JSON.readTree(line)));
            } catch (Throwable fault) {
                answer.put("fault", text(fault));
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        for (AclAuthorizer authorizer : AUTHORIZERS.values()) {
            authorizer.close();
        }
    }

    static Object answer(JsonNode question) throws Exception {
        switch (question.get("do").asText()) {
            case "configure":
                return configure(question);
            case "world":
                return world(authorizer(question), question);
            case "ask":
                return verdicts(authorizer(question), question.get("requests"));
            case "create":
                return create(authorizer(question), question.get("bindings"));
            case "delete":
                return delete(authorizer(question), question.get("bindings"));
            case "close":
                AUTHORIZERS.remove(question.get("on").asText()).close();
                return "closed";
            case "distinguished name":
                return new X500Principal(Base64.getDecoder().decode(question.get("der").asText())).getName();
            case "map":
                return SslPrincipalMapper.fromRules(question.get("rules").asText()).getName(question.get("name").asText());
            case "address":
                return InetAddress.getByName(question.get("address").asText()).getHostAddress();
            default:
                throw new IllegalArgumentException("unknown question: " + question);
        }
    }

    static String configure(JsonNode question) {
        Map<String, String> properties = new HashMap<>();
        question.get("properties").fields().forEachRemaining(each -> properties.put(each.getKey(), each.getValue().asText()));
        AclAuthorizer authorizer = new AclAuthorizer();
        try {
            authorizer.configure(properties);
        } catch (RuntimeException refused) {
            authorizer.close();
            throw refused;
        }
        AUTHORIZERS.put(question.get("on").asText(), authorizer);
        return "configured";
    }

    /** Puts the ACLs into the cache as a loaded znode is, asks, and takes them out. */
    static Map<String, Object> world(AclAuthorizer authorizer, JsonNode question) throws Exception {
        List<ResourcePattern> resources = new ArrayList<>();
        List<String> faults = new ArrayList<>();
        for (JsonNode acl : question.get("acls")) {
            ResourceType type = SecurityUtils.resourceType(acl.get(0).asText());
            PatternType pattern = PatternType.valueOf(acl.get(1).asText().toUpperCase(Locale.ROOT));
            byte[] data = Base64.getDecoder().decode(acl.get(3).asText());
            try {
                ResourcePattern resource = new ResourcePattern(type, acl.get(2).asText(), pattern);
                invoke(UPDATE_CACHE, authorizer, resource, ResourceZNode.decode(data, new Stat()));
                resources.add(resource);
                faults.add(null);
            } catch (Throwable fault) {
                faults.add(text(fault));
            }
        }
        Map<String, Object> answer = new HashMap<>();
        answer.put("faults", faults);
        answer.put("verdicts", verdicts(authorizer, question.get("requests")));
        for (ResourcePattern resource : resources) {
            invoke(UPDATE_CACHE, authorizer, resource, ResourceZNode.decode(new byte[0], new Stat()));
        }
        return answer;
    }

    /** One letter for each request: A allowed, D denied, - no such operation or type in this version. */
    static String verdicts(AclAuthorizer authorizer, JsonNode requests) throws Exception {
        StringBuilder letters = new StringBuilder();
        for (JsonNode request : requests) {
            AclOperation operation = SecurityUtils.operation(request.get(3).asText());
            ResourceType type = SecurityUtils.resourceType(request.get(4).asText());
            AuthorizableRequestContext context = new Context(request);
            if (operation == AclOperation.UNKNOWN || type == ResourceType.UNKNOWN) {
                letters.append('-');
            } else {
                ResourcePattern resource = new ResourcePattern(type, request.get(5).asText(), PatternType.LITERAL);
                letters.append(letter(authorizer.authorize(context, List.of(new Action(operation, resource, 1, true, true))).get(0)));
            }
        }
        return letters.toString();
    }

    static char letter(Object result) {
        return result == AuthorizationResult.ALLOWED ? 'A' : 'D';
    }

    static String create(AclAuthorizer authorizer, JsonNode bindings) throws Exception {
        List<AclBinding> wanted = bindings(bindings);
        for (var result : authorizer.createAcls(null, wanted)) {
            result.toCompletableFuture().get().exception().ifPresent(fault -> {
                throw fault;
            });
        }
        return "created";
    }

    static String delete(AclAuthorizer authorizer, JsonNode bindings) throws Exception {
        List<AclBindingFilter> filters = new ArrayList<>();
        bindings(bindings).forEach(binding -> filters.add(binding.toFilter()));
        for (var result : authorizer.deleteAcls(null, filters)) {
            result.toCompletableFuture().get().exception().ifPresent(fault -> {
                throw fault;
            });
        }
        return "deleted";
    }

    static List<AclBinding> bindings(JsonNode nodes) {
        List<AclBinding> bindings = new ArrayList<>();
        for (JsonNode node : nodes) {
            ResourcePattern resource = new ResourcePattern(
                SecurityUtils.resourceType(node.get(0).asText()),
                node.get(2).asText(),
                PatternType.valueOf(node.get(1).asText().toUpperCase(Locale.ROOT)));
            AccessControlEntry entry = new AccessControlEntry(
                node.get(3).asText(),
                node.get(4).asText(),
                SecurityUtils.operation(node.get(5).asText()),
                SecurityUtils.permissionType(node.get(6).asText()));
            bindings.add(new AclBinding(resource, entry));
        }
        return bindings;
    }

    static AclAuthorizer authorizer(JsonNode question) {
        return AUTHORIZERS.get(question.get("on").asText());
    }

    /** The method of this name, which is private in some versions. */
    static Method method(String name) {
        for (Method method : AclAuthorizer.class.getDeclaredMethods()) {
            if (method.getName().endsWith(name)) {
                method.setAccessible(true);
                return method;
            }
        }
        throw new IllegalStateException("AclAuthorizer of this version has no method " + name);
    }

    static Object invoke(Method method, Object on, Object... arguments) throws Exception {
        try {
            return method.invoke(on, arguments);
        } catch (InvocationTargetException wrapped) {
            throw (Exception) wrapped.getCause();
        }
    }

    static String text(Throwable fault) {
        String text = String.valueOf(fault);
        return text.substring(0, Math.min(text.length(), 300));
    }

    static class Context implements AuthorizableRequestContext {
        private final KafkaPrincipal principal;
        private final InetAddress address;

        Context(JsonNode request) throws Exception {
            principal = new KafkaPrincipal(request.get(0).asText(), request.get(1).asText());
            address = InetAddress.getByName(request.get(2).asText());
        }

        public String listenerName() {
            return "TEST";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.SASL_SSL;
        }

        public KafkaPrincipal principal() {
            return principal;
        }

        public InetAddress clientAddress() {
            return address;
        }

        public int requestType() {
            return 3;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "test";
        }

        public int correlationId() {
            return 0;
        }
    }
}
