import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Collectors;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.UniqueId;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;

/** Writes a line for each test that has ended: its outcome, its unique name and why it failed. */
public final class Outcomes implements TestExecutionListener {
  private final PrintStream out;

  public Outcomes() throws IOException {
    out = new PrintStream(Files.newOutputStream(Path.of(System.getProperty("outcomes"))), true, "UTF-8");
  }

  @Override
  public void executionSkipped(TestIdentifier test, String reason) {
    tell("skipped", test, "");
  }

  @Override
  public void executionFinished(TestIdentifier test, TestExecutionResult result) {
    String why = result.getThrowable().map(Throwable::toString).orElse("");
    switch (result.getStatus()) {
      case FAILED:
        tell("failed", test, why);
        break;
      case ABORTED:
        tell("skipped", test, "");
        break;
      default:
        if (test.isTest()) {
          tell("passed", test, "");
        }
    }
  }

  private synchronized void tell(String outcome, TestIdentifier test, String why) {
    String name = test.getUniqueIdObject().getSegments().stream().skip(1)
        .map(UniqueId.Segment::getValue).collect(Collectors.joining("/"));
    out.println(outcome + "\t" + name + "\t" + why.replaceAll("\\s+", " "));
  }
}
