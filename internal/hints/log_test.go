package hints_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/internal/hints"
	"github.com/dltbatch/dltbatch/store"
)

// The log has a line if no hints arrive, with the reason, and a line if they arrive again, with
// the way. It has none about a store without hints, and none about an end that was asked for.
func TestLog(t *testing.T) {
	live := hints.State{Live: true, Way: "by wire"}
	for _, c := range []struct {
		before, now hints.State
		want        string
	}{
		{hints.State{}, live, `level=DEBUG msg="hears hints" about=lanes way="by wire"` + "\n"},
		{hints.State{Err: errCut}, live, `level=INFO msg="hears hints" about=lanes way="by wire"` + "\n"},
		{live, hints.State{Err: errCut}, `level=WARN msg="hears no hints: scans find what other processes do" about=lanes error=cut` + "\n"},
		{live, hints.State{}, ""},
		{hints.State{}, hints.State{Err: store.ErrUnsupported}, ""},
	} {
		var out strings.Builder
		hints.Log(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
			Level: slog.LevelDebug,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})), store.TopicLanes, c.before, c.now)
		assert.Equal(t, c.want, out.String())
	}
}
