// A client for http3.sh: requests over HTTP/3 (quic-go) or HTTP/2 (net/http), on some connections with
// several requests at a time each, for some seconds. Prints the number of requests and the bytes of content.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

func main() {
	log.SetFlags(0)
	version := flag.Int("http", 3, "the version of HTTP: 2 or 3")
	connections := flag.Int("connections", 4, "connections")
	streams := flag.Int("streams", 8, "requests of each connection at a time")
	duration := flag.Duration("time", 3*time.Second, "how long")
	flag.Parse()
	// The certificate is that of the script, for this run.
	trust := &tls.Config{InsecureSkipVerify: true}
	var requests, bytes atomic.Int64
	end, cancel := context.WithTimeout(context.Background(), *duration)
	defer cancel()
	var wait sync.WaitGroup
	for range *connections {
		var transport http.RoundTripper
		if *version == 3 {
			transport = &http3.Transport{TLSClientConfig: trust, DisableCompression: true, QUICConfig: &quic.Config{
				InitialStreamReceiveWindow: 4 << 20, MaxStreamReceiveWindow: 16 << 20,
				InitialConnectionReceiveWindow: 16 << 20, MaxConnectionReceiveWindow: 64 << 20,
			}}
		} else {
			protocols := new(http.Protocols)
			protocols.SetHTTP2(true)
			transport = &http.Transport{TLSClientConfig: trust, DisableCompression: true, Protocols: protocols, MaxConnsPerHost: 1}
		}
		for range *streams {
			wait.Add(1)
			go func() {
				defer wait.Done()
				buffer := make([]byte, 64<<10)
				for end.Err() == nil {
					request, err := http.NewRequestWithContext(end, http.MethodGet, flag.Arg(0), nil)
					if err != nil {
						log.Fatal(err)
					}
					response, err := transport.RoundTrip(request)
					if err != nil {
						if end.Err() == nil {
							log.Fatal(err)
						}
						return
					}
					if response.StatusCode != 200 || response.ProtoMajor != *version {
						log.Fatal(response.Proto, " ", response.Status)
					}
					for {
						count, err := response.Body.Read(buffer)
						bytes.Add(int64(count))
						if err == io.EOF {
							requests.Add(1)
							break
						}
						if err != nil {
							if end.Err() == nil {
								log.Fatal(err)
							}
							break
						}
					}
					response.Body.Close()
				}
			}()
		}
	}
	wait.Wait()
	fmt.Println(requests.Load(), bytes.Load())
}
