"""Demands of servers that speak plain OpenAI chat but refuse some requests that OpenAI accepts, in their own words."""

from tidegate.wire.validation.faults import ChatDemands, FaultWording

MOONSHOT_DEMANDS = ChatDemands(
    known_result=FaultWording("OC13", "Invalid request: tool_call_id  is not found")  # it never fills the id in
)
MINIMAX_DEMANDS = ChatDemands(
    result_order=FaultWording("OC14", "invalid params, tool call result does not follow tool call (2013)")
)
XAI_DEMANDS = ChatDemands(
    required_list=FaultWording(
        "XA1", 'Schema validation failed: [standard_violation] /required: null is not of type "array"'
    )
)
