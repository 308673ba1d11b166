package org.elasticsearch.plugins;

import java.util.List;
import java.util.Map;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.jdk.ModuleQualifiedExportsService;

/** Takes plugins that stand on the class path, where the server itself only reads them from folders. */
public final class ClasspathPlugins extends PluginsService {
    private final List<LoadedPlugin> loaded;

    public ClasspathPlugins(Environment environment, Settings settings, List<Plugin> plugins) {
        super(settings, environment.configFile(), null, null);
        loaded = plugins.stream().map(ClasspathPlugins::load).toList();
    }

    private static LoadedPlugin load(Plugin plugin) {
        String name = plugin.getClass().getName();
        PluginDescriptor descriptor =
                new PluginDescriptor(name, name, "1", "1", "17", name, null, List.of(), false, false, false, false);
        return new LoadedPlugin(descriptor, plugin);
    }

    @Override
    protected List<LoadedPlugin> plugins() {
        return loaded;
    }

    /** On the class path there are no modules that could export anything. */
    @Override
    protected void addServerExportsService(Map<String, List<ModuleQualifiedExportsService>> services) {}
}
