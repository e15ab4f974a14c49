package console

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of the streams that keep pages up to date.
const (
	maxLiveStreams    = 100              // streams in one process
	liveCheckInterval = 2 * time.Second  // between two checks for a newer read
	liveBeatInterval  = 16 * time.Second // between two events; a proxy closes a stream that is silent for long
	liveTimeLimit     = 10 * time.Minute // the browser then asks again, and the application authenticates it again
	liveWriteTimeout  = 30 * time.Second // for one write
	liveRetryDelay    = 30 * time.Second // before a browser asks again whose stream has ended
)

// keepUpToDate allows pages other than the first to be kept up to date. On a page with forms only
// the script does so, and it stops once somebody fills in a form.
func (v *visit) keepUpToDate(a *answer) {
	var script bool
	switch a.page {
	case "lanes", "batches", "orders", "instances", "audit":
	case "lane", "batch":
		script = true
	default:
		return
	}
	path, q := strings.TrimPrefix(v.request.URL.Path, "/"), maps.Clone(v.query)
	on := q.Has("keep") && !script
	if q.Del("keep"); !on {
		q.Set("keep", "1")
	} else {
		a.reloadAfter = keepUpInterval
	}
	if query := q.Encode(); query != "" {
		path += "?" + query
	}
	a.live = &liveLink{On: on, To: path, Script: script, Look: v.readNumber}
}

// liveStreams are the streams of a process.
type liveStreams struct {
	openCount atomic.Int64
	done      chan struct{} // closed when the console ends
	endOnce   sync.Once
}

// serveLive streams an event "look" for each new read that all visitors share. A page that is kept
// up to date then reads itself again: within seconds of an act, and otherwise every half minute.
// All streams together cost no more than one page. The newest event is repeated to keep the
// connection open. The event "fails" says that the store begins to fail, and "over" that the
// browser should ask again at once.
func (c *Console) serveLive(w http.ResponseWriter, r *http.Request) {
	if c.liveStreams.openCount.Add(1) > maxLiveStreams {
		c.liveStreams.openCount.Add(-1)
		http.Error(w, "too many streams", http.StatusServiceUnavailable)
		return
	}
	defer c.liveStreams.openCount.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	send := func(text string) bool {
		// A writer that supports no deadline returns an error, which does not matter.
		_ = out.SetWriteDeadline(time.Now().Add(liveWriteTimeout))
		_, err := fmt.Fprint(w, text)
		return err == nil && out.Flush() == nil
	}
	if !send("retry: " + strconv.FormatInt(liveRetryDelay.Milliseconds(), 10) + "\n\n") {
		return
	}
	tick := time.NewTicker(liveCheckInterval)
	defer tick.Stop()
	begin, sent, last := time.Now(), time.Now(), ""
	for time.Since(begin) < liveTimeLimit {
		event := "event: fails\ndata: the store\n\n"
		if look, err := c.newestRead(r.Context()); err == nil {
			event = "event: look\ndata: " + strconv.FormatInt(look, 10) + "\n\n"
		}
		if event != last || time.Since(sent) >= liveBeatInterval {
			if last, sent = event, time.Now(); !send(event) {
				return
			}
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-c.liveStreams.done:
			return
		}
	}
	send("event: over\ndata: ask again\n\n")
}

// newestRead returns the number of the newest read. It reads again first if a read is due.
func (c *Console) newestRead(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeLimit)
	defer cancel()
	_, _, err := c.overview.getMaybeOld(ctx)
	return c.overview.readCount.Load(), err
}
