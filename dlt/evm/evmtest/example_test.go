package evmtest_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"

	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
)

// In a test it is evmtest.Start(t, ...), and nothing has to be closed.
func Example() {
	node, err := evmtest.Listen(&evmtest.Options{BlockTime: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	raw, hash := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, To: evmtest.Dev(1).Address(), Value: big.NewInt(5)})
	body := `{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x` + hex.EncodeToString(raw) + `"]}`
	for range 2 {
		res, err := http.Post(node.URL(), "application/json", strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		text, err := io.ReadAll(res.Body)
		fmt.Println(strings.Replace(string(text), hash, "the hash", 1), err)
		_ = res.Body.Close()
	}
	node.Mine()
	block := node.Blocks()[1]
	fmt.Println(len(block.Transactions), block.Transactions[0].Hash == hash, block.Transactions[0].Value)
	// Output:
	// {"id":1,"jsonrpc":"2.0","result":"the hash"} <nil>
	// {"error":{"code":-32000,"message":"already known"},"id":1,"jsonrpc":"2.0"} <nil>
	// 1 true 5
}
