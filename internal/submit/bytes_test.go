package submit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/internal/submit"
)

// Nothing more is taken while the payloads that wait or are being sent have MaxBytes together.
func TestPayloadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAfter(time.Second), func(o *submit.Options, _ *ledger) { o.MaxBytes = 25 })
		assert.Equal(t, 25, r.BytesLeft())
		r.post(farUntil, "s", "a") // 12 bytes
		n, _ := r.Room()
		assert.Positive(t, n)
		assert.Equal(t, 13, r.BytesLeft())
		r.post(farUntil, "t", "b", "c")
		synctest.Wait()
		n, again := r.Room()
		assert.Zero(t, n)
		assert.Zero(t, again, "it will be woken")
		assert.Equal(t, 1, r.BytesLeft(), "a claim takes one batch at least")
		before := r.readyCount()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.Greater(t, r.readyCount(), before)
		assert.Equal(t, 25, r.BytesLeft())
		r.stopAndWait()
	})
}

// A stop gives back the bytes of runs that were not sent.
func TestAStopGivesBytesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := build(accept, func(o *submit.Options, _ *ledger) { o.MaxBytes = 25 })
		r.post(farUntil, "s", "a", "b")
		assert.Equal(t, 1, r.BytesLeft())
		r.run(t)
		r.stopAndWait()
		assert.Equal(t, 25, r.BytesLeft())
	})
}
