package splinter

import (
	"cmp"
	"encoding/json"
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
	// first is when the service first saw the batch, on the node's clock; for a batch that it
	// does not know, the present time. Zero if the answer has no time.
	first time.Time
}

// statusJSON is one element of a node's answer (docs/ledgers/splinter.md#asking-for-statuses).
type statusJSON struct {
	ID     string `json:"id"`
	Status struct {
		Type string `json:"statusType"`
		// Missing for Unknown and Pending before 0.6.13. It is decoded separately, so that its
		// form cannot spoil the status.
		Message json.RawMessage `json:"message"`
	} `json:"status"`
	Timestamp struct {
		Seconds int64 `json:"secs_since_epoch"`
		Nanos   int64 `json:"nanos_since_epoch"`
	} `json:"timestamp"`
}

type messageJSON struct {
	TransactionID string `json:"transaction_id"`
	Message       string `json:"error_message"`
	Data          []int  `json:"error_data"` // byte by byte
}

// decodeStatuses reads the answer in any order, matches it by id and returns at most one per
// id. It returns complete answers from before an error together with the error.
func decodeStatuses(r io.Reader, ids []batch.ID) ([]answer, error) {
	d := &statusDecoder{json: json.NewDecoder(r), open: make(map[batch.ID]struct{}, len(ids))}
	for _, id := range ids {
		d.open[id] = struct{}{}
	}
	err := d.list()
	return d.out, errors.Join(err, d.first)
}

type statusDecoder struct {
	json  *json.Decoder
	open  map[batch.ID]struct{} // asked and not answered
	out   []answer
	first error // the first error in a single element
}

func (d *statusDecoder) list() error {
	odd, err := wire.List(d.json, d.element)
	d.first = cmp.Or(d.first, odd)
	return err
}

func (d *statusDecoder) element(e statusJSON) {
	id := batch.ID(e.ID)
	if _, asked := d.open[id]; !asked {
		return
	}
	a := answer{Status: batch.Status{ID: id}}
	switch e.Status.Type {
	case "Unknown":
		a.Reported = batch.ReportedUnknown
	case "Pending":
		a.Reported = batch.ReportedPending
	case "Valid":
		a.Reported = batch.ReportedValid
	case "Invalid":
		a.Reported = batch.ReportedInvalid
		a.receipts(e.Status.Message)
	case "Committed":
		a.Reported = batch.ReportedCommitted
	default:
		d.note(fmt.Errorf("unknown status %s of batch %s", wire.Word(e.Status.Type), e.ID))
		return
	}
	if t := e.Timestamp; t.Seconds > 0 && t.Nanos >= 0 && t.Nanos < int64(time.Second) {
		a.first = time.Unix(t.Seconds, t.Nanos)
	}
	delete(d.open, id)
	d.out = append(d.out, a)
}

// receipts reads the transactions of an invalid batch. A node lists all of them; for the
// innocent ones the message is only that their batch is invalid (0.6.14; data is empty for
// all, older nodes give some for the failed one). The message of the batch is the first cause.
func (a *answer) receipts(message json.RawMessage) {
	var list []messageJSON
	if json.Unmarshal(message, &list) != nil {
		return // the verdict does not depend on it
	}
	innocent := "containing batch (" + string(a.ID) + ") is invalid"
	why, sure := "", 0
	for _, m := range list {
		data := make([]byte, 0, len(m.Data))
		for _, b := range m.Data {
			data = append(data, byte(b))
		}
		blame := 1
		switch {
		case len(data) > 0:
			blame = 3
		case m.Message != innocent && m.Message != "":
			blame = 2
		}
		if blame > sure {
			why, sure = m.Message, blame
		}
		a.Receipts = append(a.Receipts, batch.Receipt{
			TransactionID: batch.Excerpt(m.TransactionID, batch.MaxIDLen),
			Message:       batch.Excerpt(m.Message, batch.MaxErrorText),
			Data:          data,
		})
	}
	a.Message = batch.Excerpt(why, maxText)
}

func (d *statusDecoder) note(err error) {
	if d.first == nil {
		d.first = err
	}
}
