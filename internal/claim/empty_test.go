package claim_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Empty is true only after a scan that read all lanes, not after a part of them or a scan that
// failed.
func TestEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []struct {
			lanes []batch.ServiceID
			err   error
			empty bool
		}{{empty: true}, {lanes: serviceNames(3)}, {}, {empty: true}, {err: errStore}}
		var n atomic.Int64
		w := &claimTest{list: func(store.LanesQuery) ([]batch.ServiceID, error) {
			if i := int(n.Add(1)) - 1; i < len(answers) {
				return answers[i].lanes, answers[i].err
			}
			return nil, nil
		}}
		q, stop := w.start(t, nil)
		for i, a := range answers {
			synctest.Wait()
			assert.Equal(t, int64(i+1), n.Load())
			assert.Equal(t, a.empty, q.Empty(scan), "scan %d", i)
			time.Sleep(scan / 2)
			if a.err == nil {
				assert.False(t, q.Empty(scan/4), "it is old")
			}
			time.Sleep(scan - scan/2)
		}
		assert.True(t, q.Empty(scan), "the scan that failed was made again")
		stop()
		assert.False(t, locked(w, func() bool { return w.scans[2].Start }), "the third scan went on behind the second")
	})
}
