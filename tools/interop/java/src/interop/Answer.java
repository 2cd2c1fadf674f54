package interop;

import java.util.Map;

/** Response to a request. Names of fields are in lower case. */
record Answer(int status, Map<String, String> fields, byte[] body) {
    String field(String name) throws Failed {
        Failed.unless(fields.containsKey(name), "no field " + name);
        return fields.get(name);
    }
}
