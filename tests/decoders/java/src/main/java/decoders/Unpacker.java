package decoders;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessageUnpacker;

/** The unpacker, element by element: header, tag, counts. What follows is left unread. */
public final class Unpacker {
    static List<Long> decode(byte[] payload) throws IOException {
        try (MessageUnpacker unpacker = MessagePack.newDefaultUnpacker(payload)) {
            int elements = unpacker.unpackArrayHeader();
            String tag = unpacker.unpackString();
            if (!tag.equals("LoadStat")) {
                throw new IOException("unexpected tag " + tag);
            }
            if (elements < 6) {
                throw new IOException(elements + " elements");
            }
            List<Long> values = new ArrayList<>();
            for (int index = 1; index <= 4; index++) {
                values.add(unpacker.unpackLong());
            }
            values.add(unpacker.tryUnpackNil() ? null : unpacker.unpackLong());
            if (elements >= 11) {
                for (int index = 6; index <= 10; index++) {
                    values.add(unpacker.unpackLong());
                }
            }
            return values;
        }
    }

    public static void main(String[] arguments) throws IOException {
        Map<String, String> policies = Map.of(
                "TrailingBytes", "accept",
                "OmittedRank", "reject",
                "TagAsBin", "accept",
                "CountAboveI64", "reject",
                "PartialTail", "older",
                "NilTail", "reject");
        Testee.serve("java-msgpack-core", 2, policies, Unpacker::decode);
    }

    private Unpacker() {}
}
