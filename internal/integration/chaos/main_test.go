package chaos

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/dltbatch/dltbatch/internal/ordercrash"
	"github.com/dltbatch/dltbatch/internal/pgtest"
)

var (
	chaosTime   = flag.Duration("chaos.time", 15*time.Second, "how long faults go on, for each ledger")
	chaosFaults = flag.Int("chaos.faults", 15, "how many faults there are in that time, for each ledger")
	chaosSeed   = flag.Uint64("chaos.seed", 1, "seed of the faults")
)

func TestMain(m *testing.M) {
	if text := os.Getenv(jobVariable); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(ordercrash.Variable); text != "" {
		if err := ordercrash.RunWorker(text, openOrders); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Main(m))
}
