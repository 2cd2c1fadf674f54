package interop;

/** Something was not as it must be. */
final class Failed extends Exception {
    private Failed(String detail) {
        super(detail);
    }

    static void unless(boolean condition, String detail) throws Failed {
        if (!condition) {
            throw new Failed(detail);
        }
    }
}
