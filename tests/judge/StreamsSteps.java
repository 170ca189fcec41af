package org.apache.kafka.streams.processor.internals;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;

/**
 * `StreamsSteps --bootstrap-server SERVERS CALL NAME:PARTITIONS...`: creates a repartition topic and a changelog of each
 * name with Kafka Streams' own class, or validates them. It lies in the package of that class, whose parts are not public.
 */
public class StreamsSteps {
    public static void main(String[] arguments) {
        Map<String, Object> properties = new HashMap<>();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "judge");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[1]);
        properties.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 2);
        Map<String, InternalTopicConfig> topics = new TreeMap<>();
        for (int index = 3; index < arguments.length; index++) {
            String[] parts = arguments[index].split(":");
            int partitions = Integer.parseInt(parts[1]);
            String repartition = "judge-" + parts[0] + "-repartition";
            topics.put(repartition, new RepartitionTopicConfig(repartition, Map.of(), partitions, true));
            InternalTopicConfig changelog =
                new UnwindowedUnversionedChangelogTopicConfig("judge-" + parts[0] + "-changelog", Map.of());
            changelog.setNumberOfPartitions(partitions);
            topics.put(changelog.name(), changelog);
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[1]))) {
            InternalTopicManager manager = new InternalTopicManager(Time.SYSTEM, admin, new StreamsConfig(properties));
            switch (arguments[2]) {
                case "make-ready" -> System.out.println("new: " + new TreeSet<>(manager.makeReady(topics)));
                case "validate" -> {
                    var result = manager.validate(topics);
                    System.out.println("missing: " + new TreeSet<>(result.missingTopics()));
                    System.out.println("misconfigured: " + new TreeMap<>(result.misconfigurationsForTopics()));
                }
                default -> throw new IllegalArgumentException("no such call: " + arguments[2]);
            }
        } catch (RuntimeException error) {
            System.out.println(error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }
}
