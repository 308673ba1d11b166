package ragflowlg;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.http.HttpServerTransport;
import org.elasticsearch.node.ClasspathNode;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.transport.netty4.Netty4Plugin;

/**
 * Starts a node on free loopback ports and writes its address to the file {@code FOLDER/address}. It ends when its
 * standard input is closed, so that it never outlives whoever started it.
 */
public final class ElasticsearchNode {
    private ElasticsearchNode() {}

    public static void main(String[] arguments) {
        try {
            serve(Path.of(arguments[0]));
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1); // threads of a node that did not start would keep the process
        }
        System.exit(0);
    }

    private static void serve(Path folder) throws Exception {
        Settings settings = Settings.builder()
                .put("path.home", folder.toString())
                .put("path.data", folder.resolve("data").toString())
                .put("path.logs", folder.resolve("logs").toString())
                .put("cluster.name", "ragflow-lg-test")
                .put("node.name", "node")
                .put("discovery.type", "single-node")
                .put("network.host", "127.0.0.1")
                .put("http.port", "0")
                .put("transport.port", "0")
                .put("http.type", "netty4")
                .put("transport.type", "netty4")
                .put("cluster.routing.allocation.disk.threshold_enabled", false)
                .build();
        LogConfigurator.configureESLogging();
        LogConfigurator.configureWithoutConfig(settings);
        var environment = InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "node");
        Files.createDirectories(environment.configFile());
        try (var node = new ClasspathNode(environment, List.of(new Netty4Plugin(), new ScriptedSimilarityPlugin()))) {
            node.start();
            announce(node, folder);
            while (System.in.read() >= 0) {}
        }
    }

    private static void announce(ClasspathNode node, Path folder) throws IOException {
        var address = node.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress();
        Path written = Files.writeString(folder.resolve("address.new"), "http://127.0.0.1:" + address.getPort());
        Files.move(written, folder.resolve("address"));
    }
}
