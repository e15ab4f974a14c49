package sawtooth_test

import (
	"fmt"

	"github.com/dltbatch/dltbatch/dlt/sawtooth"
)

// The example builds, signs and checks a batch of one transaction.
func Example() {
	key, err := sawtooth.ParsePrivateKey("2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088")
	if err != nil {
		fmt.Println(err)
		return
	}
	const address = "1cf126cc488cca4cc3565a876f6040f8b73a7b92475be1d0b1bc453f6140fba7183b9a"
	b, err := sawtooth.Build(key, "", sawtooth.Transaction{
		FamilyName:    "intkey",
		FamilyVersion: "1.0",
		Nonce:         "n0", // use crypto/rand.Text() in a real program
		Inputs:        []string{address},
		Outputs:       []string{address},
		Payload:       []byte("hello"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("id     ", b.ID[:16]+"...")
	fmt.Println("writes ", b.Footprint.Writes[0])
	fmt.Println("payload", len(b.Payload), "bytes")
	fmt.Println("check  ", sawtooth.Check(b))

	b.Payload[len(b.Payload)-1]++ // changes the last byte, which is in the transaction's payload
	fmt.Println("check  ", sawtooth.Check(b) != nil)
	// Output:
	// id      9eb2b3bc4330deeb...
	// writes  1cf126cc488cca4cc3565a876f6040f8b73a7b92475be1d0b1bc453f6140fba7183b9a
	// payload 905 bytes
	// check   <nil>
	// check   true
}
