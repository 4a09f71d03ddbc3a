// Counts lines, words and bytes. POST: any text
// /// fnd
// description = "Counts lines, words and bytes of a text"
// labels = { team = "web" }
// on_load = false
// [limits]
// timeout = "30s"
// ///
class Words {
    public static void main(String[] arguments) throws Exception {
        byte[] bytes = System.in.readAllBytes();
        String text = new String(bytes);
        long lines = text.chars().filter(c -> c == '\n').count();
        long words = text.isBlank() ? 0 : text.strip().split("\\s+").length;
        System.out.printf("{\"lines\": %d, \"words\": %d, \"bytes\": %d}%n", lines, words, bytes.length);
    }
}
