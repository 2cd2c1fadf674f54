package interop;

import java.io.InputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Clients of edge-server in Java: tries the cases that are named by one of them, and says in a line
 * of JSON what came of each. See tools/interop/README.md. */
final class Main {
    private static final Pattern OBJECT = Pattern.compile("\"(/[^\"]+)\": *\"([0-9a-f]{64})\"");

    public static void main(String[] arguments) throws Exception {
        if (arguments.length < 5) {
            System.err.println("usage: interop.Main flupke|netty URL CERTIFICATE OBJECTS CASE...");
            System.exit(2);
        }
        Trust trust = new Trust(certificate(Path.of(arguments[2])));
        try (Client client = client(arguments[0], URI.create(arguments[1]), trust)) {
            Cases cases = new Cases(client, objects(Path.of(arguments[3])), trust);
            for (String name : Arrays.asList(arguments).subList(4, arguments.length)) {
                tell(cases, name);
            }
        }
        // Threads of the clients may still wait for timers.
        System.exit(0);
    }

    private static Client client(String name, URI url, Trust trust) throws Exception {
        return switch (name) {
            case "flupke" -> new FlupkeClient(url, trust);
            case "netty" -> new NettyClient(url, trust);
            default -> throw new IllegalArgumentException("no such client: " + name);
        };
    }

    private static void tell(Cases cases, String name) {
        boolean ok = true;
        String detail;
        try {
            detail = cases.run(name);
        } catch (Exception | AssertionError error) {
            ok = false;
            Throwable cause = error.getCause() == null ? error : error.getCause();
            detail = cause instanceof Failed ? cause.getMessage() : cause.toString();
        }
        System.out.printf("{\"case\": %s, \"ok\": %b, \"detail\": %s}%n", quoted(name), ok, quoted(detail));
    }

    private static String quoted(String text) {
        StringBuilder line = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\' || letter < ' ') {
                line.append(String.format("\\u%04x", (int) letter));
            } else {
                line.append(letter);
            }
        }
        return line.append('"').toString();
    }

    private static X509Certificate certificate(Path file) throws Exception {
        try (InputStream pem = Files.newInputStream(file)) {
            return (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(pem);
        }
    }

    private static Map<String, String> objects(Path file) throws Exception {
        Map<String, String> hashes = new LinkedHashMap<>();
        for (Matcher found = OBJECT.matcher(Files.readString(file)); found.find(); ) {
            hashes.put(found.group(1), found.group(2));
        }
        return hashes;
    }
}
