package interop;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;

/** The cases, each on a connection of its own. */
final class Cases {
    static final String SMALL = "/small.txt";
    static final String LARGE = "/large.bin";
    static final String MANY = "/many/";
    static final int LARGE_BYTES = 20_000_000;
    static final int UPLOAD_BYTES = 5_000_000;

    /** More than one, because a worker that cannot open another's tickets is met by chance. */
    static final int RESUMED_CONNECTIONS = 5;

    /** What a request may take, the slowest of them on a busy machine. */
    private static final int TIMEOUT_S = 60;

    private final Client client;
    private final Map<String, String> objects;
    final Trust trust;

    Cases(Client client, Map<String, String> objects, Trust trust) {
        this.client = client;
        this.objects = objects;
        this.trust = trust;
    }

    String run(String name) throws Exception {
        Client.Case own = client.ownCases().get(name);
        if (own != null) {
            return own.run(this);
        }
        try (Client.Connection connection = client.connect()) {
            return switch (name) {
                case "small" -> whole(connection, SMALL).body().length + " bytes";
                case "large" -> whole(connection, LARGE).body().length + " bytes";
                case "head" -> head(connection);
                case "range" -> range(connection);
                case "conditional" -> conditional(connection);
                case "missing" -> missing(connection);
                case "parallel" -> parallel(connection);
                case "upload" -> upload(connection);
                default -> throw new IllegalArgumentException("no such case");
            };
        }
    }

    static Answer await(CompletableFuture<Answer> answer) throws Exception {
        return answer.get(TIMEOUT_S, TimeUnit.SECONDS);
    }

    static Answer get(Client.Connection connection, String path, Map<String, String> fields) throws Exception {
        return await(connection.start("GET", path, fields, null));
    }

    /** Checks that an answer is all of an object. */
    Answer check(String path, Answer answer) throws Exception {
        Failed.unless(answer.status() == 200, path + ": status " + answer.status());
        byte[] sum = MessageDigest.getInstance("SHA-256").digest(answer.body());
        String found = HexFormat.of().formatHex(sum);
        int bytes = answer.body().length;
        Failed.unless(found.equals(objects.get(path)), path + ": " + bytes + " bytes with another hash, " + found);
        String length = answer.field("content-length");
        Failed.unless(length.equals("" + bytes), path + ": content-length " + length + " for " + bytes + " bytes");
        return answer;
    }

    /** Fetches an object and checks it. */
    Answer whole(Client.Connection connection, String path) throws Exception {
        return check(path, get(connection, path, Map.of()));
    }

    private static String head(Client.Connection connection) throws Exception {
        Answer answer = await(connection.start("HEAD", LARGE, Map.of(), null));
        String length = answer.field("content-length");
        boolean ok = answer.status() == 200 && length.equals("" + LARGE_BYTES) && answer.body().length == 0;
        int bytes = answer.body().length;
        Failed.unless(ok, "status " + answer.status() + ", content-length " + length + ", body " + bytes);
        return "content-length: " + length;
    }

    private String range(Client.Connection connection) throws Exception {
        byte[] all = whole(connection, SMALL).body();
        Answer one = get(connection, SMALL, Map.of("range", "bytes=100-199"));
        Failed.unless(one.status() == 206, "one range: status " + one.status());
        Failed.unless(Arrays.equals(one.body(), Arrays.copyOfRange(all, 100, 200)), "one range: another body");
        Failed.unless(one.field("content-range").equals("bytes 100-199/1000"), "one range: content-range");

        Answer two = get(connection, SMALL, Map.of("range", "bytes=0-9,500-509"));
        Failed.unless(two.status() == 206, "two ranges: status " + two.status());
        parts(two, text(all));

        Answer none = get(connection, SMALL, Map.of("range", "bytes=1000-"));
        Failed.unless(none.status() == 416, "beyond the end: status " + none.status());
        Failed.unless(none.field("content-range").equals("bytes */1000"), "beyond the end: content-range");
        return "206, 206 with 2 parts, 416";
    }

    /** Checks the parts (RFC 2046, 5.1.1) of the answer to a request of two ranges. */
    private static void parts(Answer answer, String all) throws Failed {
        String kind = answer.field("content-type");
        String prefix = "multipart/byteranges; boundary=";
        Failed.unless(kind.startsWith(prefix), "two ranges: content-type " + kind);
        String line = "\r\n--" + kind.substring(prefix.length());
        String[] parts = ("\r\n" + text(answer.body())).split(Pattern.quote(line));
        Failed.unless(parts.length == 4 && parts[0].isEmpty() && parts[3].startsWith("--"), "two ranges: other parts");
        for (int part = 1; part <= 2; part++) {
            int first = 500 * (part - 1);
            String place = "content-range: bytes " + first + "-" + (first + 9) + "/1000\r\n";
            Failed.unless(parts[part].toLowerCase().contains(place), "two ranges: no " + place.strip());
            String wanted = "\r\n\r\n" + all.substring(first, first + 10);
            Failed.unless(parts[part].endsWith(wanted), "two ranges: another body");
        }
    }

    private String conditional(Client.Connection connection) throws Exception {
        Answer all = whole(connection, SMALL);
        String tag = all.field("etag");
        List<Map<String, String>> conditions =
                List.of(Map.of("if-none-match", tag), Map.of("if-modified-since", all.field("last-modified")));
        for (Map<String, String> condition : conditions) {
            Answer answer = get(connection, SMALL, condition);
            boolean ok = answer.status() == 304 && answer.body().length == 0 && answer.field("etag").equals(tag);
            Failed.unless(ok, condition + ": status " + answer.status() + ", body " + answer.body().length);
        }
        check(SMALL, get(connection, SMALL, Map.of("if-none-match", "\"another\"")));
        return "304, 304, 200";
    }

    private static String missing(Client.Connection connection) throws Exception {
        int status = get(connection, "/missing", Map.of()).status();
        Failed.unless(status == 404, "status " + status);
        return "404";
    }

    private String parallel(Client.Connection connection) throws Exception {
        List<String> paths = objects.keySet().stream().filter(path -> path.startsWith(MANY)).toList();
        Failed.unless(paths.size() == 100, paths.size() + " objects");
        List<CompletableFuture<Answer>> answers = new ArrayList<>();
        for (String path : paths) {
            answers.add(connection.start("GET", path, Map.of(), null));
        }
        for (int index = 0; index < paths.size(); index++) {
            check(paths.get(index), await(answers.get(index)));
        }
        return paths.size() + " streams";
    }

    private static String upload(Client.Connection connection) throws Exception {
        Answer answer = await(connection.start("POST", "/upload", Map.of(), new byte[UPLOAD_BYTES]));
        String counted = text(answer.body()).strip();
        boolean ok = answer.status() == 200 && counted.equals("" + UPLOAD_BYTES);
        Failed.unless(ok, "status " + answer.status() + ", counted " + counted);
        return counted + " bytes";
    }

    private static String text(byte[] body) {
        return new String(body, StandardCharsets.ISO_8859_1);
    }
}
