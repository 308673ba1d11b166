package ragflowlg;

import java.util.Collection;
import java.util.Map;
import java.util.Set;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.index.similarity.ScriptedSimilarity;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.plugins.ScriptPlugin;
import org.elasticsearch.script.ScriptContext;
import org.elasticsearch.script.ScriptEngine;
import org.elasticsearch.script.SimilarityScript;

/**
 * Stands in for painless, which is not published: it knows one script, the similarity of RAGFlow's mapping, and gives
 * boost × normalised idf × min(freq, 1) for it.
 */
public final class ScriptedSimilarityPlugin extends Plugin implements ScriptPlugin {
    @Override
    public ScriptEngine getScriptEngine(Settings settings, Collection<ScriptContext<?>> contexts) {
        return new Engine();
    }

    private static final class Engine implements ScriptEngine {
        @Override
        public String getType() {
            return "painless";
        }

        @Override
        public <F> F compile(String name, String code, ScriptContext<F> context, Map<String, String> parameters) {
            if (context.factoryClazz != SimilarityScript.Factory.class) {
                throw new IllegalArgumentException("This node has no painless, only the scripted similarity.");
            }
            SimilarityScript.Factory factory = Similarity::new;
            return context.factoryClazz.cast(factory);
        }

        @Override
        public Set<ScriptContext<?>> getSupportedContexts() {
            return Set.of(SimilarityScript.CONTEXT);
        }
    }

    private static final class Similarity extends SimilarityScript {
        @Override
        public double execute(
                double weight,
                ScriptedSimilarity.Query query,
                ScriptedSimilarity.Field field,
                ScriptedSimilarity.Term term,
                ScriptedSimilarity.Doc doc) {
            double rarity = Math.log(1 + (field.getDocCount() - term.getDocFreq() + 0.5) / (term.getDocFreq() + 0.5));
            double most = Math.log(1 + (field.getDocCount() - 0.5) / 1.5);
            return query.getBoost() * rarity / most * Math.min(doc.getFreq(), 1);
        }
    }
}
