package splinter

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// answer is a node's answer about one batch.
type answer struct {
	batch.Status
	// firstSeen is when the service first saw the batch, on the node's clock. For a batch that the
	// service does not know it is the time of the answer. It is zero if the answer has no time.
	firstSeen time.Time
}

// statusJSON is one element of a node's answer (docs/ledgers/splinter.md#asking-for-statuses).
type statusJSON struct {
	id, status string
	invalidTxs []batch.Receipt
	timestamp  timestampJSON
}

type timestampJSON struct {
	Seconds int64 `json:"secs_since_epoch"`
	Nanos   int64 `json:"nanos_since_epoch"`
}

type messageJSON struct {
	TransactionID string `json:"transaction_id"`
	Message       string `json:"error_message"`
	Data          []int  `json:"error_data"` // an array of byte values
}

// decodeStatuses reads an answer, whose elements may be in any order, matches them by id, and
// returns at most one status per id. Together with an error it returns the statuses that were
// complete before the error. maxBytes is the limit for each JSON value, and for all receipts
// together. The whole answer has no limit: a batch may have any number of transactions, and the
// list of them comes before further batches.
func decodeStatuses(r io.Reader, maxBytes int64, ids []batch.ID) ([]answer, error) {
	d := &statusDecoder{json: wire.NewStream(r, maxBytes), bytesLeft: maxBytes, unanswered: make(map[batch.ID]struct{}, len(ids))}
	for _, id := range ids {
		d.unanswered[id] = struct{}{}
	}
	odd, err := d.json.List(d.element)
	d.keepError(odd)
	return d.answers, errors.Join(err, d.firstErr)
}

type statusDecoder struct {
	json       *wire.Stream
	bytesLeft  int64                 // how many bytes of receipts may still be kept
	unanswered map[batch.ID]struct{} // ids that were asked about and have no answer yet
	answers    []answer
	firstErr   error // the first error in a single element
}

// element reads one element. It ignores a well-formed element that is no status.
func (d *statusDecoder) element() error {
	var e statusJSON
	odd, err := d.json.Object(func(key string) (err error) {
		var bad error
		switch key {
		case "id":
			bad, err = d.json.Value(&e.id)
		case "status":
			bad, err = d.json.Object(func(key string) error { return d.status(key, &e) })
		case "timestamp":
			bad, err = d.json.Value(&e.timestamp)
		default:
			err = d.json.Skip()
		}
		d.keepError(bad)
		return err
	})
	d.keepError(odd)
	if err != nil {
		return err
	}
	d.take(e)
	return nil
}

// status reads one field of the status.
func (d *statusDecoder) status(key string, e *statusJSON) error {
	switch key {
	case "statusType":
		odd, err := d.json.Value(&e.status)
		d.keepError(odd)
		return err
	case "message":
		e.invalidTxs = nil
		return d.receipts(e)
	}
	return d.json.Skip()
}

// receipts reads the transactions. The verdict does not depend on them, so it leaves out those
// that cannot be read, or that have no room. Nodes before 0.6.13 leave out the field for Unknown
// and Pending.
func (d *statusDecoder) receipts(e *statusJSON) error {
	_, err := d.json.List(func() error {
		var m messageJSON
		odd, err := d.json.Value(&m)
		if odd != nil || err != nil {
			return err
		}
		r := batch.Receipt{
			TransactionID: batch.Excerpt(m.TransactionID, batch.MaxIDLen),
			Message:       batch.Excerpt(m.Message, batch.MaxErrorText),
			Data:          make([]byte, 0, len(m.Data)),
		}
		for _, b := range m.Data {
			r.Data = append(r.Data, byte(b))
		}
		size := int64(len(r.TransactionID) + len(r.Message) + len(r.Data))
		if size <= d.bytesLeft {
			d.bytesLeft -= size
			e.invalidTxs = append(e.invalidTxs, r)
		}
		return nil
	})
	return err
}

func (d *statusDecoder) take(e statusJSON) {
	id := batch.ID(e.id)
	if _, asked := d.unanswered[id]; !asked {
		return
	}
	a := answer{Status: batch.Status{ID: id}}
	switch e.status {
	case "Unknown":
		a.Reported = batch.ReportedUnknown
	case "Pending":
		a.Reported = batch.ReportedPending
	case "Valid":
		a.Reported = batch.ReportedValid
	case "Invalid":
		a.Reported = batch.ReportedInvalid
		a.Receipts, a.Message = e.invalidTxs, firstCause(id, e.invalidTxs)
	case "Committed":
		a.Reported = batch.ReportedCommitted
	default:
		d.keepError(fmt.Errorf("unknown status %s of batch %s", wire.QuoteWord(e.status), e.id))
		return
	}
	if t := e.timestamp; t.Seconds > 0 && t.Nanos >= 0 && t.Nanos < int64(time.Second) {
		a.firstSeen = time.Unix(t.Seconds, t.Nanos)
	}
	delete(d.unanswered, id)
	d.answers = append(d.answers, a)
}

// firstCause returns the first cause of an invalid batch. A node lists all transactions. For the
// innocent ones the message only says that their batch is invalid. (0.6.14 leaves data empty for
// all; older nodes give data for the failed transaction.)
func firstCause(id batch.ID, receipts []batch.Receipt) string {
	innocent := "containing batch (" + string(id) + ") is invalid"
	why, sure := "", 0
	for _, r := range receipts {
		blame := 1
		switch {
		case len(r.Data) > 0:
			blame = 3
		case r.Message != innocent && r.Message != "":
			blame = 2
		}
		if blame > sure {
			why, sure = r.Message, blame
		}
	}
	return batch.Excerpt(why, maxText)
}

func (d *statusDecoder) keepError(err error) { d.firstErr = cmp.Or(d.firstErr, err) }
