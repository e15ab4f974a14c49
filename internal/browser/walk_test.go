package browser

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// quickstart runs the example with its console until the test ends, and returns the console's
// address.
func quickstart(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "quickstart")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./examples/quickstart")
	build.Dir = filepath.Join("..", "..")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command(bin, "-console")
	text, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait() // the exit code is 130: interrupted
		require.Equal(t, 130, cmd.ProcessState.ExitCode())
	})
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		if _, rest, found := strings.Cut(lines.Text(), "the console is at "); found {
			address, _, _ := strings.Cut(rest, " ")
			return address
		}
	}
	require.Fail(t, "the example names no console", "%v", lines.Err())
	return ""
}

// Each step of docs/operations.md#two-minutes-in-the-console leads to the page that it says.
func TestQuickstartAsAPersonUsesIt(t *testing.T) {
	p := (&stagedConsole{T: t, url: quickstart(t)}).newPerson()
	p.open("")
	p.checkWords("Needs a person", "1 lane is paused.", "2 batches in 1 lane", "By quickstart: something to mend")
	p.click(`Resume service "service-00"`)
	p.typeInto("resume-reason", "a walk")
	p.pressButton("Resume")
	p.checkWords("Done: resume by quickstart", "Who did what", "a walk")
	for end := time.Now().Add(time.Minute); !strings.Contains(p.text(), "Nothing is: no batch is open"); {
		require.True(t, time.Now().Before(end), "%s", p.text())
		p.click("Overview")
		time.Sleep(100 * time.Millisecond)
	}
	p.open("?keep=1")
	p.checkWords("The page does so every 30 s")
	p.checkWords("The last minutes")
	p.click("Pause or resume everything")
	p.typeInto("pause-reason", "a walk")
	p.typeInto("pause-confirm", "pause")
	p.pressButton("Pause")
	p.click("Lanes")
	p.checkWords("Everything is paused by quickstart: a walk")
	p.click("Resume everything")
	p.typeInto("resume-reason", "a walk")
	p.typeInto("resume-confirm", "resume")
	p.pressButton("Resume")
	p.click("History")
	p.checkWords("resume", "pause", "everything", "a walk")
	p.open("batches?show=all")
	p.runAndLoad(chromedp.Click("table a"))
	p.checkWords("How it ended", "committed: final", "Cannot cancel from committed.")
	t.Logf("%d clicks", p.clicks)
}
