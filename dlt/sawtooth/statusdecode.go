package sawtooth

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// statusJSON is one element of a node's answer (docs/ledgers/sawtooth.md#asking-for-statuses).
// The node omits keys whose value is empty.
type statusJSON struct {
	id, status string
	invalidTxs []batch.Receipt
}

type invalidJSON struct {
	ID           string `json:"id"`
	Message      string `json:"message"`
	ExtendedData string `json:"extended_data"` // standard base64
}

// decodeStatuses reads an answer, whose elements may be in any order, matches them by id, and
// returns at most one status per id. Together with an error it returns the statuses that were
// complete before the error. maxBytes is the limit for each JSON value, and for all receipts
// together. The whole answer has no limit: a node lists a transaction again each time it is
// executed, before its verdict.
func decodeStatuses(r io.Reader, maxBytes int64, ids []batch.ID) ([]batch.Status, error) {
	d := &statusDecoder{json: wire.NewStream(r, maxBytes), bytesLeft: maxBytes, unanswered: make(map[batch.ID]struct{}, len(ids))}
	for _, id := range ids {
		d.unanswered[id] = struct{}{}
	}
	odd, err := d.json.Object(func(key string) error {
		if key != "data" {
			return d.json.Skip()
		}
		d.hasList = true
		odd, err := d.json.List(d.element)
		d.keepError(odd)
		return err
	})
	d.keepError(odd)
	if err == nil && !d.hasList {
		d.keepError(errors.New("the answer has no data"))
	}
	return d.statuses, errors.Join(err, d.firstErr)
}

type statusDecoder struct {
	json       *wire.Stream
	bytesLeft  int64                 // how many bytes of receipts may still be kept
	unanswered map[batch.ID]struct{} // ids that were asked about and have no answer yet
	statuses   []batch.Status
	hasList    bool  // true if the answer has a list
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
			bad, err = d.json.Value(&e.status)
		case "invalid_transactions":
			e.invalidTxs = nil
			err = d.invalid(&e)
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

// invalid reads the failed transactions. The verdict does not depend on them, so it leaves out
// those that cannot be read, or that have no room.
func (d *statusDecoder) invalid(e *statusJSON) error {
	seen := map[string]struct{}{}
	_, err := d.json.List(func() error {
		var t invalidJSON
		odd, err := d.json.Value(&t)
		if odd != nil || err != nil {
			return err
		}
		r := batch.Receipt{TransactionID: batch.Excerpt(t.ID, batch.MaxIDLen), Message: batch.Excerpt(t.Message, batch.MaxErrorText)}
		if _, twice := seen[r.TransactionID]; twice { // listed again, because it was executed again (docs/ledgers/sawtooth.md#asking-for-statuses)
			return nil
		}
		if data, err := base64.StdEncoding.DecodeString(t.ExtendedData); err == nil {
			r.Data = data
		}
		size := int64(len(r.TransactionID) + len(r.Message) + len(r.Data))
		if size > d.bytesLeft {
			return nil
		}
		d.bytesLeft -= size
		seen[r.TransactionID] = struct{}{}
		e.invalidTxs = append(e.invalidTxs, r)
		return nil
	})
	return err
}

func (d *statusDecoder) take(e statusJSON) {
	id := batch.ID(e.id)
	if _, asked := d.unanswered[id]; !asked {
		return
	}
	s := batch.Status{ID: id, Receipts: e.invalidTxs}
	switch e.status {
	case "COMMITTED":
		s.Reported = batch.ReportedCommitted
	case "INVALID":
		s.Reported = batch.ReportedInvalid
	case "PENDING":
		s.Reported = batch.ReportedPending
	case "UNKNOWN":
		s.Reported = batch.ReportedUnknown
	default:
		d.keepError(fmt.Errorf("unknown status %s of batch %s", wire.QuoteWord(e.status), e.id))
		return
	}
	if s.Reported == batch.ReportedInvalid && len(e.invalidTxs) > 0 {
		s.Message = batch.Excerpt(e.invalidTxs[0].Message, maxText)
	}
	delete(d.unanswered, id)
	d.statuses = append(d.statuses, s)
}

func (d *statusDecoder) keepError(err error) { d.firstErr = cmp.Or(d.firstErr, err) }
