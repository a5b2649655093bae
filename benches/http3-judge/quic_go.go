// A client of quic-go for http3-judge.sh: gets one path several times on one connection, then again on
// others, and prints what it has seen.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

func main() {
	log.SetFlags(0)
	certificate := flag.String("certificate", "", "the file with the server's certificate")
	count := flag.Int("count", 1, "requests on each connection, all at the same time")
	connections := flag.Int("connections", 1, "connections, one after the other")
	early := flag.Bool("early", false, "send the first request of later connections as early data")
	flag.Parse()
	pem, err := os.ReadFile(*certificate)
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	sessions := tls.NewLRUClientSessionCache(8)
	for number := 0; number < *connections; number++ {
		var connection *quic.Conn
		transport := &http3.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, ClientSessionCache: sessions},
			QUICConfig:      &quic.Config{HandshakeIdleTimeout: 30 * time.Second, MaxIdleTimeout: time.Minute},
			Dial: func(context context.Context, address string, tls *tls.Config, config *quic.Config) (*quic.Conn, error) {
				dialled, err := quic.DialAddrEarly(context, address, tls, config)
				connection = dialled
				return dialled, err
			},
		}
		method := http.MethodGet
		if *early && number > 0 {
			method = http3.MethodGet0RTT
		}
		var wait sync.WaitGroup
		digests := make([]string, *count)
		get := func(index int, method string) {
			request, err := http.NewRequest(method, flag.Arg(0), nil)
			if err != nil {
				log.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				log.Fatal(err)
			}
			defer response.Body.Close()
			hash := sha256.New()
			if _, err := io.Copy(hash, response.Body); err != nil {
				log.Fatal(err)
			}
			digests[index] = fmt.Sprintf("%d %s %x", response.StatusCode, response.Proto, hash.Sum(nil))
		}
		get(0, method)
		for index := 1; index < *count; index++ {
			wait.Add(1)
			go func() {
				defer wait.Done()
				get(index, http.MethodGet)
			}()
		}
		wait.Wait()
		same := 0
		for _, digest := range digests {
			if digest == digests[0] {
				same++
			}
		}
		state := connection.ConnectionState()
		fmt.Printf("%s same=%d resumed=%v early=%v version=%v\n", digests[0], same, state.TLS.DidResume, state.Used0RTT, state.Version)
		// The session ticket arrives after the handshake.
		time.Sleep(100 * time.Millisecond)
		transport.Close()
	}
}
