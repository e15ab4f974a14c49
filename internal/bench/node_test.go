package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// moment is the time at which batches were committed, or came in, from the ledger's own
// journal.
type moment struct {
	At        int64 // in nanoseconds since 1970
	Committed bool
	Batches   []batch.ID
}

func (m moment) time() time.Time { return time.Unix(0, m.At) }

// node is a simulated ledger in a process of its own.
type node struct {
	url  string
	stop func() []moment // ends it, once, and returns its journal
}

// startNode runs a simulated ledger; args are nodeproc's.
func startNode(b testing.TB, args ...string) node {
	bin := filepath.Join(b.TempDir(), "nodeproc")
	out, err := exec.Command("go", "build", "-o", bin, "github.com/dltbatch/dltbatch/internal/nodeproc").CombinedOutput()
	require.NoError(b, err, "%s", out)
	cmd := exec.Command(bin, args...)
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	said := bufio.NewReader(stdout)
	stop := sync.OnceValues(func() (journal []moment, err error) {
		stdin.Close()
		for lines := json.NewDecoder(said); ; {
			var m moment
			if err := lines.Decode(&m); err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				return journal, errors.Join(err, cmd.Wait())
			}
			journal = append(journal, m)
		}
	})
	b.Cleanup(func() { stop() })
	line, err := said.ReadString('\n')
	require.NoError(b, err)
	return node{strings.TrimSpace(line), func() []moment {
		journal, err := stop()
		require.NoError(b, err)
		return journal
	}}
}
