package lanes

import (
	"fmt"
	"testing"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// BenchmarkBatch measures the table's work for a batch of one of 10,000 lanes with a backlog: the
// lane is named, taken, read, under way, and free again.
func BenchmarkBatch(b *testing.B) {
	t := New(250)
	var lanes laneIDs
	for i := range 10_000 {
		lanes = append(lanes, batch.ServiceID(fmt.Sprintf("service-%06d", i)))
	}
	t.Name(time.Now(), lanes...)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n == 0 {
			lanes = t.Take(100)
			now := time.Now()
			for _, s := range lanes {
				t.Rest(s, now.Add(10*time.Microsecond))
				t.RunBegan(s, now.Add(time.Second))
			}
			t.Done(lanes...)
			t.Name(now, lanes...)
		}
		t.Free(time.Now(), lanes[n])
		n = (n + 1) % len(lanes)
	}
}
