/* SPDX-License-Identifier: MIT */
/*
 * The functions behind src/seen.list. Our headers do not have these calls, so their prototypes are here, with a void
 * pointer for each type that we do not have either.
 */
#ifndef CN_DRIVER_GPU_SEEN_H
#define CN_DRIVER_GPU_SEEN_H

#include "cenote/cuda.h"

/* The head of CUgraphNodeParams. */
struct cn_gpu_node_params {
	int type;
	int reserved[3];
	CUevent event; /* of a node that records one */
};

/* gpu_capture.c */
CUresult gpu_cuStreamBeginCapture(CUstream stream);
CUresult gpu_cuStreamBeginCapture_ptsz(CUstream stream);
CUresult gpu_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
CUresult gpu_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode);
CUresult gpu_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
					 const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode);
CUresult gpu_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
					      const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode);
CUresult gpu_cuStreamEndCapture(CUstream stream, CUgraph *ret_graph);
CUresult gpu_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *ret_graph);

/* gpu_event.c */
CUresult gpu_cuGreenCtxRecordEvent(void *green, CUevent event);
CUresult gpu_cuGraphAddEventRecordNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *nodes, size_t count,
				       CUevent event);
CUresult gpu_cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event);
CUresult gpu_cuGraphExecEventRecordNodeSetEvent(void *exec, CUgraphNode node, CUevent event);
CUresult gpu_cuGraphAddNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *nodes, size_t count,
			    struct cn_gpu_node_params *params);
CUresult gpu_cuGraphAddNode_v2(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *nodes,
			       const CUgraphEdgeData *edges, size_t count, struct cn_gpu_node_params *params);
CUresult gpu_cuGraphNodeSetParams(CUgraphNode node, struct cn_gpu_node_params *params);
CUresult gpu_cuGraphExecNodeSetParams(void *exec, CUgraphNode node, struct cn_gpu_node_params *params);

/* gpu_stream.c */
CUresult gpu_cuGreenCtxStreamCreate(CUstream *ret_stream, void *green, unsigned int flags, int priority);
CUresult gpu_cuWaitExternalSemaphoresAsync(void *const *semaphores, const void *params, unsigned int count,
					   CUstream stream);
CUresult gpu_cuWaitExternalSemaphoresAsync_ptsz(void *const *semaphores, const void *params, unsigned int count,
						CUstream stream);
CUresult gpu_cuCtxDetach(CUcontext context);
CUresult gpu_cuGreenCtxDestroy(void *green);

#endif
