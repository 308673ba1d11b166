package org.elasticsearch.node;

import java.util.List;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.plugins.ClasspathPlugins;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.plugins.PluginsService;

/** A node whose plugins stand on the class path. */
public final class ClasspathNode extends Node {
    public ClasspathNode(Environment environment, List<Plugin> plugins) {
        super(NodeConstruction.prepareConstruction(environment, provider(plugins), false));
    }

    private static NodeServiceProvider provider(List<Plugin> plugins) {
        return new NodeServiceProvider() {
            @Override
            PluginsService newPluginService(Environment environment, Settings settings) {
                return new ClasspathPlugins(environment, settings, plugins);
            }
        };
    }
}
