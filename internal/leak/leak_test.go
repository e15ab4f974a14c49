package leak

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func lingerHere(started, stop chan struct{}) {
	close(started)
	<-stop
}

func TestReportNamesWhatIsLeft(t *testing.T) {
	before := goroutines()
	started, stop := make(chan struct{}), make(chan struct{})
	go lingerHere(started, stop)
	<-started

	var out bytes.Buffer
	assert.Equal(t, 1, report(&out, before, 20*time.Millisecond))
	assert.Contains(t, out.String(), "lingerHere")
	assert.Contains(t, out.String(), "1 goroutines")

	out.Reset()
	time.AfterFunc(50*time.Millisecond, func() { close(stop) })
	assert.Equal(t, 0, report(&out, before, Patience), "it waits for those that are about to end")
	assert.Empty(t, out.String())
}
