import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DeleteTopicsOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * One call of Kafka's Admin client: `AdminSteps --bootstrap-server SERVERS CALL ARGUMENT...`. It prints each result in
 * a line of its own, sorted, and each error by its class and message.
 */
public class AdminSteps {
    static final String NONE = "-";

    public static void main(String[] arguments) throws Exception {
        List<String> rest = Arrays.asList(arguments).subList(3, arguments.length);
        Map<String, Object> properties = new HashMap<>();
        properties.put("bootstrap.servers", arguments[1]);
        properties.put("client.id", "judge");
        try (Admin admin = Admin.create(properties)) {
            call(admin, arguments[2], rest);
        }
    }

    static void call(Admin admin, String name, List<String> rest) throws Exception {
        switch (name) {
            case "create" -> create(admin, rest, new CreateTopicsOptions());
            case "check-create" -> create(admin, rest, new CreateTopicsOptions().validateOnly(true));
            case "create-once" -> create(admin, rest, new CreateTopicsOptions().retryOnQuotaViolation(false));
            case "delete" -> show(admin.deleteTopics(rest).topicNameValues());
            case "delete-once" -> {
                DeleteTopicsOptions options = new DeleteTopicsOptions().retryOnQuotaViolation(false);
                show(admin.deleteTopics(rest, options).topicNameValues());
            }
            case "delete-ids" -> {
                List<Uuid> ids = rest.stream().map(Uuid::fromString).collect(Collectors.toList());
                show(admin.deleteTopics(TopicCollection.ofTopicIds(ids)).topicIdValues());
            }
            case "grow" -> show(admin.createPartitions(growths(rest)).values());
            case "grow-once" -> {
                CreatePartitionsOptions options = new CreatePartitionsOptions().retryOnQuotaViolation(false);
                show(admin.createPartitions(growths(rest), options).values());
            }
            case "check-grow" -> {
                CreatePartitionsOptions options = new CreatePartitionsOptions().validateOnly(true);
                show(admin.createPartitions(growths(rest), options).values());
            }
            case "list" -> show("topics", admin.listTopics().names().thenApply(TreeSet::new));
            case "describe" -> describe(admin, rest);
            case "cluster" -> cluster(admin);
            case "elect" -> elect(admin, rest);
            case "move" -> show(admin.alterPartitionReassignments(moves(rest)).values());
            case "moving" -> show("moving", admin.listPartitionReassignments().reassignments()
                .thenApply(found -> new TreeMap<>(texts(found))));
            case "configs" -> configs(admin, resource(rest));
            case "set-config" -> alterConfig(admin, rest, AlterConfigOp.OpType.SET, false);
            case "check-config" -> alterConfig(admin, rest, AlterConfigOp.OpType.SET, true);
            case "delete-config" -> alterConfig(admin, rest, AlterConfigOp.OpType.DELETE, false);
            case "append-config" -> alterConfig(admin, rest, AlterConfigOp.OpType.APPEND, false);
            case "subtract-config" -> alterConfig(admin, rest, AlterConfigOp.OpType.SUBTRACT, false);
            case "replace-configs" -> replaceConfigs(admin, rest);
            case "quotas" -> show("quotas", admin.describeClientQuotas(ClientQuotaFilter.all()).entities()
                .thenApply(found -> new TreeMap<>(texts(found))));
            case "set-quota" -> show(admin.alterClientQuotas(List.of(quota(rest))).values());
            case "scram-users" -> show("users", admin.describeUserScramCredentials().all()
                .thenApply(found -> new TreeMap<>(found)));
            case "set-scram" -> show(admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(
                rest.get(0), new ScramCredentialInfo(ScramMechanism.fromMechanismName(rest.get(1)),
                Integer.parseInt(rest.get(2))), rest.get(3)))).values());
            case "delete-scram" -> show(admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(
                rest.get(0), ScramMechanism.fromMechanismName(rest.get(1))))).values());
            case "acls" -> show("acls", admin.describeAcls(AclBindingFilter.ANY).values());
            case "create-acl" -> show(admin.createAcls(List.of(binding(rest.get(0)))).values());
            case "delete-acl" -> show(admin.deleteAcls(List.of(binding(rest.get(0)).toFilter())).values());
            case "features" -> show("features", admin.describeFeatures().featureMetadata());
            case "set-feature" -> show(admin.updateFeatures(Map.of(rest.get(0), new FeatureUpdate(
                Short.parseShort(rest.get(1)), FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions())
                .values());
            case "quorum" -> show("quorum", admin.describeMetadataQuorum().quorumInfo());
            case "unregister" -> show("unregister", admin.unregisterBroker(Integer.parseInt(rest.get(0))).all());
            case "log-dirs" -> logDirs(admin, rest);
            case "move-dir" -> show(admin.alterReplicaLogDirs(Map.of(
                new TopicPartitionReplica(rest.get(0), Integer.parseInt(rest.get(1)), Integer.parseInt(rest.get(2))),
                rest.get(3))).values());
            case "groups" -> show("groups", admin.listConsumerGroups().all().thenApply(Collection::size));
            case "delete-groups" -> show(admin.deleteConsumerGroups(rest).deletedGroups());
            case "transactions" -> show("transactions", admin.listTransactions().all().thenApply(Collection::size));
            case "producers" -> show("producers", admin.describeProducers(List.of(partition(rest.get(0)))).all()
                .thenApply(found -> found.values().iterator().next().activeProducers().size()));
            case "end-offset" -> show("offset", admin.listOffsets(Map.of(partition(rest.get(0)), OffsetSpec.latest()))
                .all().thenApply(found -> found.values().iterator().next().offset()));
            case "tokens" -> show("tokens", admin.describeDelegationToken().delegationTokens());
            case "create-token" -> show("token", admin.createDelegationToken().delegationToken());
            case "metrics-resources" -> show("resources", admin.listClientMetricsResources().all());
            default -> throw new IllegalArgumentException("no such call: " + name);
        }
    }

    /** Arguments: NAME:PARTITIONS:REPLICATION[:CONFIG=VALUE...], or NAME@1.2,2.1 with the replicas by partition. */
    static void create(Admin admin, List<String> specifications, CreateTopicsOptions options) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (String specification : specifications) {
            int at = specification.indexOf('@');
            if (at >= 0) {
                Map<Integer, List<Integer>> assignment = new TreeMap<>();
                for (List<Integer> replicas : replicaLists(specification.substring(at + 1))) {
                    assignment.put(assignment.size(), replicas);
                }
                topics.add(new NewTopic(specification.substring(0, at), assignment));
                continue;
            }
            String[] parts = specification.split(":");
            int partitions = Integer.parseInt(parts[1]);
            short replication = Short.parseShort(parts[2]);
            NewTopic topic = new NewTopic(
                parts[0],
                partitions == -1 ? Optional.empty() : Optional.of(partitions),
                replication == -1 ? Optional.empty() : Optional.of(replication));
            Map<String, String> configs = new TreeMap<>();
            for (int index = 3; index < parts.length; index++) {
                String[] pair = parts[index].split("=", 2);
                configs.put(pair[0], pair[1]);
            }
            topics.add(topic.configs(configs));
        }
        CreateTopicsResult result = admin.createTopics(topics, options);
        show(result.values());
        for (String name : new TreeSet<>(result.values().keySet())) {
            if (!result.values().get(name).isCompletedExceptionally()) {
                show(name + " partitions", result.numPartitions(name));
                show(name + " replication", result.replicationFactor(name));
                show(name + " retention.ms", result.config(name).thenApply(found -> found.get("retention.ms").value()));
            }
        }
    }

    /** Arguments: NAME:COUNT[:1.2,2.1] with the replicas of the new partitions. */
    static Map<String, NewPartitions> growths(List<String> specifications) {
        Map<String, NewPartitions> growths = new TreeMap<>();
        for (String specification : specifications) {
            String[] parts = specification.split(":");
            int count = Integer.parseInt(parts[1]);
            growths.put(parts[0], parts.length > 2
                ? NewPartitions.increaseTo(count, replicaLists(parts[2])) : NewPartitions.increaseTo(count));
        }
        return growths;
    }

    /** Arguments: NAME-PARTITION=1.2, or NAME-PARTITION=- to cancel. */
    static Map<TopicPartition, Optional<NewPartitionReassignment>> moves(List<String> specifications) {
        Map<TopicPartition, Optional<NewPartitionReassignment>> moves = new HashMap<>();
        for (String specification : specifications) {
            String[] parts = specification.split("=", 2);
            moves.put(partition(parts[0]), parts[1].equals(NONE)
                ? Optional.empty() : Optional.of(new NewPartitionReassignment(replicaLists(parts[1]).get(0))));
        }
        return moves;
    }

    static List<List<Integer>> replicaLists(String text) {
        return Arrays.stream(text.split(",")).map(replicas -> Arrays.stream(replicas.split("\\."))
            .filter(each -> !each.isEmpty()).map(Integer::valueOf).collect(Collectors.toList()))
            .collect(Collectors.toList());
    }

    static TopicPartition partition(String text) {
        int at = text.lastIndexOf('-');
        return new TopicPartition(text.substring(0, at), Integer.parseInt(text.substring(at + 1)));
    }

    static void describe(Admin admin, List<String> names) throws Exception {
        for (Map.Entry<String, KafkaFuture<TopicDescription>> each
            : new TreeMap<>(admin.describeTopics(names).topicNameValues()).entrySet()) {
            show(each.getKey(), each.getValue().thenApply(found -> found.partitions().stream()
                .map(row -> row.partition() + " leader " + (row.leader() == null ? NONE : row.leader().idString())
                    + " replicas " + row.replicas().stream().map(node -> node.idString()).toList()
                    + " isr " + row.isr().stream().map(node -> node.idString()).toList())
                .collect(Collectors.joining("; ", "internal " + found.isInternal() + ": ", ""))));
        }
    }

    static void cluster(Admin admin) throws Exception {
        var cluster = admin.describeCluster();
        show("nodes", cluster.nodes().thenApply(found -> found.stream().map(node -> node.id()).sorted().toList()));
        var nodes = cluster.nodes().get(120, TimeUnit.SECONDS);
        show("controller is a node", cluster.controller().thenApply(nodes::contains));
        show("cluster id has characters", cluster.clusterId().thenApply(String::length));
        show("operations", cluster.authorizedOperations());
    }

    static void elect(Admin admin, List<String> rest) throws Exception {
        var partitions = rest.size() == 1 ? null
            : rest.subList(1, rest.size()).stream().map(AdminSteps::partition).collect(Collectors.toSet());
        show("elected", admin.electLeaders(ElectionType.valueOf(rest.get(0)), partitions).partitions()
            .thenApply(found -> new TreeMap<>(texts(found))));
    }

    /** Arguments: TYPE NAME; an empty name is the default of all brokers. */
    static ConfigResource resource(List<String> rest) {
        return new ConfigResource(ConfigResource.Type.valueOf(rest.get(0)), rest.get(1).equals(NONE) ? "" : rest.get(1));
    }

    /** Shows what is no default. */
    static void configs(Admin admin, ConfigResource resource) throws Exception {
        show("configs", admin.describeConfigs(List.of(resource)).values().get(resource).thenApply(found ->
            found.entries().stream()
                .filter(entry -> entry.source().name().startsWith("DYNAMIC"))
                .map(entry -> entry.name() + "=" + entry.value() + " (" + entry.source() + ")")
                .sorted().collect(Collectors.joining(", "))));
    }

    /** Arguments: TYPE NAME KEY=VALUE...; an empty VALUE is null. */
    static void alterConfig(Admin admin, List<String> rest, AlterConfigOp.OpType type, boolean check) throws Exception {
        List<AlterConfigOp> operations = new ArrayList<>();
        for (ConfigEntry entry : entries(rest)) {
            operations.add(new AlterConfigOp(entry, type));
        }
        AlterConfigsOptions options = new AlterConfigsOptions().validateOnly(check);
        show(admin.incrementalAlterConfigs(Map.of(resource(rest), operations), options).values());
    }

    @SuppressWarnings("deprecation")
    static void replaceConfigs(Admin admin, List<String> rest) throws Exception {
        show(admin.alterConfigs(Map.of(resource(rest), new Config(entries(rest)))).values());
    }

    static List<ConfigEntry> entries(List<String> rest) {
        return rest.subList(2, rest.size()).stream().map(each -> each.split("=", 2))
            .map(pair -> new ConfigEntry(pair[0], pair[1].isEmpty() ? null : pair[1])).collect(Collectors.toList());
    }

    /** Arguments: TYPE=NAME[,TYPE=NAME] KEY=VALUE...; an empty VALUE removes the quota, NAME - is the default. */
    static ClientQuotaAlteration quota(List<String> rest) {
        Map<String, String> entity = new TreeMap<>();
        for (String each : rest.get(0).split(",")) {
            String[] pair = each.split("=", 2);
            entity.put(pair[0], pair[1].equals(NONE) ? null : pair[1]);
        }
        List<ClientQuotaAlteration.Op> operations = rest.subList(1, rest.size()).stream().map(each -> each.split("=", 2))
            .map(pair -> new ClientQuotaAlteration.Op(pair[0], pair[1].isEmpty() ? null : Double.valueOf(pair[1])))
            .collect(Collectors.toList());
        return new ClientQuotaAlteration(new ClientQuotaEntity(entity), operations);
    }

    static AclBinding binding(String topic) {
        return new AclBinding(new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL),
            new AccessControlEntry("User:judge", "*", AclOperation.READ, AclPermissionType.ALLOW));
    }

    /** Arguments: TOPIC BROKER...; prints the number of directories, and the topic's replicas in them. */
    static void logDirs(Admin admin, List<String> rest) throws Exception {
        List<Integer> brokers = rest.stream().skip(1).map(Integer::valueOf).collect(Collectors.toList());
        for (var each : new TreeMap<>(admin.describeLogDirs(brokers).descriptions()).entrySet()) {
            show("broker " + each.getKey(), each.getValue().thenApply(found -> found.size() + " directories, "
                + found.values().stream().flatMap(one -> one.replicaInfos().keySet().stream())
                    .filter(replica -> replica.topic().equals(rest.get(0)))
                    .map(TopicPartition::toString).sorted().toList()));
        }
    }

    static <K, V> Map<String, String> texts(Map<K, V> found) {
        Map<String, String> texts = new TreeMap<>();
        found.forEach((key, value) -> texts.put(String.valueOf(key), text(value)));
        return texts;
    }

    static String text(Object value) {
        if (value instanceof Optional<?> optional) {
            return optional.map(AdminSteps::text).orElse("done");
        }
        if (value instanceof Throwable error) {
            return error.getClass().getSimpleName() + ": " + error.getMessage();
        }
        return String.valueOf(value);
    }

    static <K, V> void show(Map<K, KafkaFuture<V>> results) throws Exception {
        Map<String, KafkaFuture<V>> sorted = new TreeMap<>();
        results.forEach((key, future) -> sorted.put(String.valueOf(key), future));
        for (Map.Entry<String, KafkaFuture<V>> each : sorted.entrySet()) {
            show(each.getKey(), each.getValue());
        }
    }

    static void show(String name, KafkaFuture<?> future) throws Exception {
        try {
            Object value = future.get(120, TimeUnit.SECONDS);
            System.out.println(name + ": " + (value == null ? "done" : value));
        } catch (ExecutionException error) {
            System.out.println(name + ": " + text(error.getCause()));
        }
    }
}
