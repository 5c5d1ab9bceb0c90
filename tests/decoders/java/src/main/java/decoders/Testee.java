package decoders;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** The adapter: a decode function on one side, the testee protocol on the other. */
final class Testee {
    static final List<String> NAMES = List.of(
            "num_running_reqs",
            "num_waiting_reqs",
            "num_tokens",
            "max_total_num_tokens",
            "attn_dp_rank",
            "num_waiting_uncached_tokens",
            "num_total_tokens",
            "max_running_requests",
            "total_prefill_uncached_tokens",
            "total_prefill_busy_us");

    /** What a decoder read, in wire order; what it did not read is left out. */
    interface Decoder {
        List<Long> decode(byte[] payload) throws Exception;
    }

    // Two members of a flat object are all that this reads, and so it needs no JSON library.
    private static final Pattern ID = Pattern.compile("\"id\": *\"([^\"]*)\"");
    private static final Pattern HEX = Pattern.compile("\"hex\": *\"([0-9a-f]*)\"");

    static void serve(
            String implementation, int revision, Map<String, String> policies, Decoder decoder)
            throws IOException {
        String declared = policies.entrySet().stream()
                .map(policy -> quote(policy.getKey()) + ":" + quote(policy.getValue()))
                .collect(Collectors.joining(","));
        say("{\"loadwire\":1,\"implementation\":" + quote(implementation)
                + ",\"version\":\"0.1.0\",\"revision\":" + revision
                + ",\"policies\":{" + declared + "},\"kinds\":[\"payload\"]}");
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String id = quote(find(ID, line));
            byte[] payload = HexFormat.of().parseHex(find(HEX, line));
            try {
                say("{\"id\":" + id + ",\"accept\":{\"value\":{"
                        + named(decoder.decode(payload)) + "}}}");
            } catch (Exception refusal) { // an Error is a crash, and is let out
                say("{\"id\":" + id + ",\"reject\":{\"text\":"
                        + quote(refusal.toString()) + "}}");
            }
        }
    }

    private static String named(List<Long> values) {
        StringBuilder fields = new StringBuilder();
        for (int index = 0; index < values.size(); index++) {
            Long value = values.get(index);
            fields.append(index == 0 ? "" : ",").append(quote(NAMES.get(index))).append(':')
                    .append(value == null ? "null" : quote(value.toString()));
        }
        return fields.toString();
    }

    private static String find(Pattern member, String line) {
        Matcher found = member.matcher(line);
        if (!found.find()) {
            throw new IllegalArgumentException("no case: " + line);
        }
        return found.group(1);
    }

    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }

    private static void say(String line) {
        System.out.print(line + "\n");
        System.out.flush();
    }

    private Testee() {}
}
