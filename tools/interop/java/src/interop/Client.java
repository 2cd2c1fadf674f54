package interop;

import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** A client: its connections, and the cases that its own means run. */
interface Client extends AutoCloseable {
    /** A connection, on which requests are concurrent. */
    interface Connection extends AutoCloseable {
        CompletableFuture<Answer> start(String method, String path, Map<String, String> fields, byte[] body);

        @Override
        void close() throws Exception;
    }

    /** A case on connections of its own. Returns what was seen. */
    interface Case {
        String run(Cases cases) throws Exception;
    }

    Connection connect() throws Exception;

    /** Returns the cases that depend on this client's API, by their names. */
    Map<String, Case> ownCases();

    @Override
    void close() throws Exception;
}
