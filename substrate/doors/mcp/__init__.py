"""The Model Context Protocol, on its official SDK: tools, resources and prompts for any client that speaks it.

stdio        one client, whose process started this one; the token is that of the process
http         many clients at once, each request with a token of its own
server       what both serve; who asks, threads, errors
tools        the tools of `substrate.doors.tools`, with their hints
resources    the hot index, the manifest, recent changes, a memory with its provenance
prompts      recall about a topic, what is known, remember a conversation, explain a memory
watching     tells a client that a resource it subscribed to has changed
guest        who asks, and which tools they are shown
origins      from where requests over HTTP may come
threads      where everything runs that may take its time
gate         what is let through to the SDK: well-formed messages, and nothing else
"""
