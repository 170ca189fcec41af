import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.connect.util.TopicAdmin;

/**
 * `ConnectSteps --bootstrap-server SERVERS CALL NAME:PARTITIONS`: creates the internal topic of a Connect worker with
 * Connect's own class, or asks it about one.
 */
public class ConnectSteps {
    public static void main(String[] arguments) {
        String[] parts = arguments[3].split(":");
        try (TopicAdmin admin = new TopicAdmin(Map.of("bootstrap.servers", arguments[1], "client.id", "connect"))) {
            switch (arguments[2]) {
                case "create" -> {
                    NewTopic topic = TopicAdmin.defineTopic(parts[0]).compacted()
                        .partitions(Integer.parseInt(parts[1])).replicationFactor((short) 2).build();
                    System.out.println("created: " + admin.createTopics(topic));
                }
                case "create-or-find" -> {
                    NewTopic topic = TopicAdmin.defineTopic(parts[0]).compacted().defaultPartitions()
                        .defaultReplicationFactor().build();
                    var found = admin.createOrFindTopics(topic);
                    System.out.println("created: " + found.isCreated(parts[0]) + ", found: " + found.isExisting(parts[0]));
                }
                case "is-compacted" -> System.out.println(
                    "compacted: " + admin.verifyTopicCleanupPolicyOnlyCompact(parts[0], "offset.storage.topic", "offsets"));
                case "describe" -> new TreeMap<>(admin.describeTopics(parts[0])).forEach((name, found) ->
                    System.out.println(name + ": " + found.partitions().size() + " partitions"));
                default -> throw new IllegalArgumentException("no such call: " + arguments[2]);
            }
        } catch (RuntimeException error) {
            System.out.println(error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }
}
