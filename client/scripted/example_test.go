package scripted_test

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"ticketing/client/scripted"
	"ticketing/codec"
)

// Any client can be driven; this one is written out.
func Example() {
	srv := scripted.New()
	defer srv.Close()
	srv.Script(
		scripted.Grant(7),
		scripted.After(10*time.Millisecond, scripted.Timeout()),
		scripted.CutReply(5, scripted.Busy()),
	)

	conn, err := srv.DialContext(context.Background(), "tcp", "any:1")
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	replies := bufio.NewReader(conn)
	for owner := range uint64(3) {
		if _, err := conn.Write(codec.AppendAcquire(nil, owner+1, 30, 30, "k")); err != nil {
			panic(err)
		}
		text, err := replies.ReadBytes('k')
		fmt.Printf("%q %v\n", text, err)
		_, _ = replies.ReadByte()
	}
	fmt.Println(len(srv.Frames()), "requests")
	// Output:
	// "A\x00\x00\x00\x00\x00\x00\x00\a\x00\x00\x00\x00\x00\x00\x00\x01k" <nil>
	// "T\x00\x00\x00\x00\x00\x00\x00\x02k" <nil>
	// "B\x00\x00\x00\x00" EOF
	// 3 requests
}
